// Signs of life of what waits on this machine: for its turn, or for a disk that says nothing until it is done.
const everyMs = 1_000

/** Until `come` is called, or the end. */
export async function withSigns<T>(onSign: (() => void) | undefined, work: (come: () => void) => Promise<T>): Promise<T> {
  if (onSign === undefined) return await work(() => undefined)
  const timer = setInterval(onSign, everyMs)
  const come = (): void => clearInterval(timer)
  try {
    return await work(come)
  } finally {
    come()
  }
}
