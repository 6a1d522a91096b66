// Waits for something that knows nothing of signals. It goes on in the background; nobody waits any more.

/** Throws the signal's reason when that comes first. */
export async function whileWanted<T>(waiting: Promise<T>, signal: AbortSignal): Promise<T> {
  const unwanted = Promise.withResolvers<never>()
  const onAbort = (): void => unwanted.reject(signal.reason)
  if (signal.aborted) onAbort()
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    // In this order: what is there already is given, so that whoever holds it can let go of it.
    return await Promise.race([waiting, unwanted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
