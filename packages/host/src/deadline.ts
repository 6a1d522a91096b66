// A time limit on work that may ignore its signal: the caller stops waiting at the limit in any case.
import { FleetError } from '@muster/protocol'
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

// Awaits a promise that takes no signal. After an abort the promise continues in the background and its result is dropped.

/** Throws the signal's reason when the signal aborts first. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    // The promise comes first: a result that is already there is returned, so that the caller can release it.
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Waits at most `ms`, or until the signal aborts. True when the promise settled by then; never rejects. */
export async function settlesWithin(
  { clock, ms, signal }: Readonly<{ clock: Clock; ms: number; signal?: AbortSignal }>,
  promise: Promise<unknown>,
): Promise<boolean> {
  const done = new AbortController()
  const limit = signal === undefined ? done.signal : AbortSignal.any([signal, done.signal])
  const settled = promise.then(
    () => true,
    () => true,
  )
  const late = clock.sleep(ms, limit).then(
    () => false,
    () => false,
  )
  const isSettled = await Promise.race([settled, late])
  done.abort()
  return isSettled
}
