// Logging what may come in floods: the 1st, 2nd, 4th, 8th … time, so that a flood costs a few lines.

/** Counts; calls `say` with the count whenever it has doubled. */
export function sparse(say: (count: number) => void): () => void {
  let count = 0
  let next = 1
  return () => {
    count += 1
    if (count < next) return
    next *= 2
    say(count)
  }
}
