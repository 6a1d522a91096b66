// Which replica gets a request. Pure.
//
// With a key (the beginning of a conversation): the replica that comes first in the order of that key, so that one
// conversation stays where its prompt is cached. The order is a hash of key and replica: every controller has the same
// without asking, and a replica that comes or goes moves only what is its own. A replica that has clearly more than its
// share is passed over, so that one conversation that everybody has can't bury it.
// Without: the one with the fewest requests under way; those that are equal take turns.

/** How much more than its share a replica may have: less spreads better, more keeps more together. */
const slack = 1.25

export interface Choice<T> {
  readonly candidates: readonly T[]
  readonly inFlight: (candidate: T) => number
  /** Not asked: already tried by this request, or known to be in trouble. */
  readonly isLeftOut: (candidate: T) => boolean
  /** Counts up with every choice, so that equals take turns. */
  readonly turn: number
  /** What belongs together has the same, 32 bits; null: it does not matter where it goes. */
  readonly key: number | null
  /** The candidate as 32 bits, the same for every controller. */
  readonly markOf: (candidate: T) => number
}
/** `full`, `absent`: that is what the first in its order is. */
export type Because = 'prefix' | 'prefix_full' | 'prefix_absent' | 'fewest'
export type Chosen<T> = Readonly<{ candidate: T; because: Because }>

export function choose<T>(choice: Choice<T>): Chosen<T> | null {
  return choice.key === null ? chooseFewest(choice) : chooseByKey(choice, choice.key)
}

function chooseFewest<T>({ candidates, inFlight, isLeftOut, turn }: Choice<T>): Chosen<T> | null {
  let chosen: T | null = null
  let fewest = Infinity
  for (let i = 0; i < candidates.length; i += 1) {
    const candidate = candidates[(turn + i) % candidates.length]
    if (candidate === undefined || isLeftOut(candidate)) continue
    const count = inFlight(candidate)
    if (count < fewest) [chosen, fewest] = [candidate, count]
  }
  return chosen === null ? null : { candidate: chosen, because: 'fewest' }
}

function chooseByKey<T>({ candidates, inFlight, isLeftOut, markOf }: Choice<T>, key: number): Chosen<T> | null {
  let [total, count] = [0, 0]
  for (const candidate of candidates) {
    if (isLeftOut(candidate)) continue
    total += inFlight(candidate)
    count += 1
  }
  const bound = boundOf(total, count)
  let chosen: T | null = null
  let [best, bestOfAll] = [-1, -1]
  let ofAll: 'chosen' | 'full' | 'absent' = 'absent'
  for (const candidate of candidates) {
    const rank = rankOf(key, markOf(candidate))
    const is = isLeftOut(candidate) ? 'absent' : inFlight(candidate) < bound ? 'chosen' : 'full'
    if (rank > bestOfAll) [ofAll, bestOfAll] = [is, rank]
    if (is === 'chosen' && rank > best) [chosen, best] = [candidate, rank]
  }
  if (chosen === null) return null
  return { candidate: chosen, because: ofAll === 'chosen' ? 'prefix' : `prefix_${ofAll}` }
}

/** Nobody may have that many of `total` when the next request comes: more than the share of each, so there is always one below. */
export const boundOf = (total: number, count: number): number => Math.ceil((slack * (total + 1)) / count)

const rankOf = (key: number, mark: number): number => mix(key ^ mix(mark))

/** Every bit of the result depends on every bit of the number (the finish of MurmurHash3). */
export function mix(number: number): number {
  let hash = number
  hash = Math.imul(hash ^ (hash >>> 16), 0x85_eb_ca_6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2_b2_ae_35)
  return (hash ^ (hash >>> 16)) >>> 0
}
