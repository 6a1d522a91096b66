// A time limit on work that may ignore its signal: the caller stops waiting at the limit in any case.
import { FleetError } from '@muster/protocol'
import { abortable } from './abortable.ts'
import type { Clock } from './clock.ts'

/** `what` is the subject of the error: `the gallery x`. */
export type Deadline = Readonly<{ clock: Clock; ms: number; what: string; signal?: AbortSignal }>

/** Throws `unavailable` at the deadline and the signal's reason on abort. */
export async function withDeadline<T>({ clock, ms, what, signal }: Deadline, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController()
  const done = new AbortController()
  const message = `${what} took longer than ${ms / 1000} s`
  clock.sleep(ms, done.signal).then(
    () => late.abort(new FleetError({ code: 'unavailable', retry: 'backoff', message })),
    () => undefined,
  )
  const limit = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal])
  try {
    limit.throwIfAborted()
    return await abortable(work(limit), limit)
  } finally {
    done.abort()
  }
}
