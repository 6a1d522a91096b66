// A limit in time for what others answer: nobody waits longer, also for what can't be called off.
import type { Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'

export type Limit = Readonly<{ clock: Clock; ms: number; what: string; signal?: AbortSignal }>

export async function within<T>({ clock, ms, what, signal }: Limit, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController()
  const done = new AbortController()
  const message = `${what} took longer than ${ms / 1000} s`
  clock.sleep(ms, done.signal).then(
    () => late.abort(new FleetError({ code: 'unavailable', retry: 'backoff', message })),
    () => undefined,
  )
  const until = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal])
  const ended = Promise.withResolvers<never>()
  until.addEventListener('abort', () => ended.reject(until.reason), { once: true })
  try {
    until.throwIfAborted()
    return await Promise.race([work(until), ended.promise])
  } finally {
    done.abort()
  }
}
