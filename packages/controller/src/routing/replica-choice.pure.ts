// Chooses the replica for a request (design.md, steps 2 to 4).
//
// With a key (the beginning of a conversation): the replica that ranks highest for that key, so that a conversation stays
// where its prompt is cached. The rank is a hash of key and replica: all controllers agree without communication, and a
// replica that comes or goes moves only its own keys. A replica with clearly more than its share of requests is skipped, so
// that one popular prefix cannot overload it.
// Without a key: the replica with the fewest open requests; equals take turns.

/** How much more than its share a replica may have: a lower value spreads better, a higher one keeps prefixes together. */
const slack = 1.25

export interface ReplicaQuery<T> {
  readonly candidates: readonly T[]
  readonly inFlight: (candidate: T) => number
  /** Already tried by this request, or suspect. */
  readonly isExcluded: (candidate: T) => boolean
  /** Counts up with every choice, so that equals take turns. */
  readonly turn: number
  /** 32-bit hash of the prefix; null: no affinity. */
  readonly key: number | null
  /** The candidate as 32 bits, the same for every controller. */
  readonly markOf: (candidate: T) => number
}
/** `prefix_full`, `prefix_absent`: the highest-ranked replica was full, or could not be tried. */
export type ChoiceReason = 'prefix' | 'prefix_full' | 'prefix_absent' | 'fewest'
export type ReplicaChoice<T> = Readonly<{ candidate: T; because: ChoiceReason }>

export function chooseReplica<T>(choice: ReplicaQuery<T>): ReplicaChoice<T> | null {
  return choice.key === null ? chooseFewest(choice) : chooseByKey(choice, choice.key)
}

function chooseFewest<T>({ candidates, inFlight, isExcluded, turn }: ReplicaQuery<T>): ReplicaChoice<T> | null {
  let chosen: T | null = null
  let fewest = Infinity
  for (let i = 0; i < candidates.length; i += 1) {
    const candidate = candidates[(turn + i) % candidates.length]
    if (candidate === undefined || isExcluded(candidate)) continue
    const count = inFlight(candidate)
    if (count < fewest) [chosen, fewest] = [candidate, count]
  }
  return chosen === null ? null : { candidate: chosen, because: 'fewest' }
}

function chooseByKey<T>({ candidates, inFlight, isExcluded, markOf }: ReplicaQuery<T>, key: number): ReplicaChoice<T> | null {
  let [total, count] = [0, 0]
  for (const candidate of candidates) {
    if (isExcluded(candidate)) continue
    total += inFlight(candidate)
    count += 1
  }
  const bound = boundOf(total, count)
  let chosen: T | null = null
  let [best, bestOfAll] = [-1, -1]
  let ofAll: 'chosen' | 'full' | 'absent' = 'absent'
  for (const candidate of candidates) {
    const rank = rankOf(key, markOf(candidate))
    const is = isExcluded(candidate) ? 'absent' : inFlight(candidate) < bound ? 'chosen' : 'full'
    if (rank > bestOfAll) [ofAll, bestOfAll] = [is, rank]
    if (is === 'chosen' && rank > best) [chosen, best] = [candidate, rank]
  }
  if (chosen === null) return null
  return { candidate: chosen, because: ofAll === 'chosen' ? 'prefix' : `prefix_${ofAll}` }
}

/** A replica with this many requests is full. The bound is above the average, so at least one replica is below it. */
export const boundOf = (total: number, count: number): number => Math.ceil((slack * (total + 1)) / count)

const rankOf = (key: number, mark: number): number => mix(key ^ mix(mark))

/** Every bit of the result depends on every bit of the input (the finalizer of MurmurHash3). */
export function mix(number: number): number {
  let hash = number
  hash = Math.imul(hash ^ (hash >>> 16), 0x85_eb_ca_6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2_b2_ae_35)
  return (hash ^ (hash >>> 16)) >>> 0
}
