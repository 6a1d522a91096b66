// Signs of life while work waits: for its turn, or for a disk that reports nothing until it is done. Without them a
// controller would take a waiting worker for a stalled one.
const everyMs = 1_000

/** Calls `onSign` every second until the work ends or calls `stop`, because it sends signs of its own from there on. */
export async function withSigns<T>(onSign: (() => void) | undefined, work: (stop: () => void) => Promise<T>): Promise<T> {
  if (onSign === undefined) return await work(() => undefined)
  const timer = setInterval(onSign, everyMs)
  const stop = (): void => clearInterval(timer)
  try {
    return await work(stop)
  } finally {
    stop()
  }
}
