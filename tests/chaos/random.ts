// Chance that a seed decides: the same seed draws the same numbers, in the same command.
export interface Random {
  /** In [0, 1). */
  next(): number
  /** A whole number in [0, count). */
  below(count: number): number
  between(from: number, to: number): number
  pick<T>(from: readonly T[]): T
  /** Some of them, at least one, in their command. */
  some<T>(from: readonly T[]): T[]
  /** One of its own, so that what one draws does not change what another does. */
  fork(): Random
}

export function createRandom(seed: number): Random {
  let state = seed >>> 0
  // mulberry32: 32 bits of state are enough to choose whom to kill.
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (count: number): number => Math.floor(next() * count)
  const pick = <T>(from: readonly T[]): T => {
    const found = from[below(from.length)]
    if (found === undefined) throw new Error('there is nothing to pick from')
    return found
  }
  return {
    next,
    below,
    between: (from, to) => from + next() * (to - from),
    pick,
    some: (from) => {
      const sure = pick(from)
      return from.filter((each) => each === sure || next() < 0.4)
    },
    fork: () => createRandom(below(2 ** 32)),
  }
}
