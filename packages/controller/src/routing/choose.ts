// Which replica gets a request: the one with the fewest requests under way; those that are equal take turns. Pure.
export interface Choice<T> {
  readonly candidates: readonly T[]
  readonly inFlight: (candidate: T) => number
  /** Not asked: already tried by this request, or known to be in trouble. */
  readonly isLeftOut: (candidate: T) => boolean
  /** Counts up with every choice, so that equals take turns. */
  readonly turn: number
}

export function choose<T>({ candidates, inFlight, isLeftOut, turn }: Choice<T>): T | null {
  let chosen: T | null = null
  let fewest = Infinity
  for (let i = 0; i < candidates.length; i += 1) {
    const candidate = candidates[(turn + i) % candidates.length]
    if (candidate === undefined || isLeftOut(candidate)) continue
    const count = inFlight(candidate)
    if (count < fewest) [chosen, fewest] = [candidate, count]
  }
  return chosen
}
