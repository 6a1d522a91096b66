// Chooses the replica for a request (design.md, steps 2 to 4), and computes the key of its prompt.
//
// With a key (the beginning of a conversation): the replica that ranks highest for that key, so that a conversation stays
// where its prompt is cached. The rank is a hash of key and replica: all controllers agree without communication, and a
// replica that comes or goes moves only its own keys. A replica with clearly more than its share of requests is skipped, so
// that one popular prefix cannot overload it.
// Without a key: the replica with the fewest open requests; equals take turns.
import { inferenceRoutes } from '@muster/protocol'

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

/** For the part before the first user message, and for that message. */
const partChars = 4_096
const maxPromptChars = 512
const endChars = 64

/**
 * Hashes the beginning of a prompt to 32 bits; null for a request without one. For a chat the prefix ends with the first user
 * message: all turns of a conversation have the same key. A long text counts by its length, beginning and end; only a few
 * kilobytes are read, because every request waits for this.
 */
export function prefixKeyOf(path: string, body: object): number | null {
  const key = new KeyWriter()
  if (path === inferenceRoutes.chat.path) writeChat(key, body)
  else key.write(fieldOf(body, path === inferenceRoutes.completions.path ? 'prompt' : 'input'), maxPromptChars)
  return key.end()
}

/** The key of a text. */
export function textKeyOf(text: string): number {
  const key = new KeyWriter()
  key.write(text, partChars)
  return key.end() ?? 0
}

function writeChat(key: KeyWriter, body: object): void {
  const messages = fieldOf(body, 'messages')
  if (!Array.isArray(messages) || messages.length === 0) return
  const first = messages.findIndex((message) => isObject(message) && fieldOf(message, 'role') === 'user')
  // Templates put the tools before everything else.
  key.write([fieldOf(body, 'tools'), fieldOf(body, 'functions'), first === -1 ? messages : messages.slice(0, first)], partChars)
  if (first !== -1) key.write(messages[first], partChars)
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
const fieldOf = (object: object, name: string): unknown => Reflect.get(object, name)

class KeyWriter {
  #hash = 0x81_1c_9d_c5
  #left = 0
  #isEmpty = true

  write(value: unknown, maxChars: number): void {
    this.#left = maxChars
    this.#value(value)
  }

  end(): number | null {
    return this.#isEmpty ? null : mix(this.#hash)
  }

  #value(value: unknown): void {
    if (value === undefined || this.#left <= 0) return
    if (typeof value === 'string') return this.#text(value)
    if (!isObject(value)) return this.#text(JSON.stringify(value))
    // Separates values: ['ab'] is not ['a', 'b'].
    this.#left -= 1
    if (Array.isArray(value)) {
      this.#hash = add(this.#hash, -1 - value.length)
      for (const each of value) this.#value(each)
      return
    }
    this.#hash = add(this.#hash, -1)
    for (const [name, each] of Object.entries(value)) {
      this.#text(name)
      this.#value(each)
    }
  }

  #text(text: string): void {
    this.#isEmpty = false
    const end = Math.min(text.length, this.#left)
    this.#left -= end + 1
    const start = add(this.#hash, text.length)
    this.#hash = addText(addText(start, text, { from: 0, to: end }), text, { from: Math.max(end, text.length - endChars), to: text.length })
  }
}

const add = (hash: number, number: number): number => Math.imul(hash ^ number, 0x01_00_01_93)

/** FNV-1a by characters. A plain loop over a local: nearly all the time goes here. */
function addText(hash: number, text: string, { from, to }: { from: number; to: number }): number {
  let sum = hash
  for (let at = from; at < to; at += 1) sum = Math.imul(sum ^ text.charCodeAt(at), 0x01_00_01_93)
  return sum
}
