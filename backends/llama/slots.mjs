// Assigns requests to slots: one slot per sequence of the context, first come first served. Among free slots, the one with
// the longest common prefix is taken, so that a conversation reuses its evaluated tokens. A short common prefix does not
// count: a new conversation takes the least recently used slot.

/** A shorter common prefix does not count: unrelated conversations share it. */
const leastRemembered = 0.5

export function createSlots(sequences) {
  const free = sequences.map((sequence) => ({ sequence, usedAt: 0 }))
  const waiting = []
  let uses = 0

  const take = (tokens) => {
    const known = free.map((slot) => ({ slot, shared: slot.sequence.compareContextTokens(tokens).firstDifferentIndex }))
    const remembering = known.filter(({ shared }) => shared > 0 && shared >= tokens.length * leastRemembered)
    const [{ slot }] = remembering.length > 0 ? remembering.toSorted((a, b) => b.shared - a.shared || byUse(a, b)) : known.toSorted(byUse)
    free.splice(free.indexOf(slot), 1)
    return slot
  }

  return {
    total: sequences.length,
    busy: () => sequences.length - free.length,
    waiting: () => waiting.length,

    /** Rejects with the reason of `signal` when that comes before a free slot. */
    acquire(tokens, signal) {
      signal.throwIfAborted()
      if (free.length > 0) return Promise.resolve(take(tokens))
      const { promise, resolve, reject } = Promise.withResolvers()
      const giveUp = () => {
        waiting.splice(waiting.indexOf(waiter), 1)
        reject(signal.reason)
      }
      const waiter = () => {
        signal.removeEventListener('abort', giveUp)
        resolve(take(tokens))
      }
      signal.addEventListener('abort', giveUp, { once: true })
      waiting.push(waiter)
      return promise
    },

    release(slot) {
      uses += 1
      slot.usedAt = uses
      free.push(slot)
      waiting.shift()?.()
    },
  }
}

/** Empty slots first, then the least recently used. */
const byUse = ({ slot: a }, { slot: b }) => lastUse(a) - lastUse(b)
const lastUse = ({ sequence, usedAt }) => (sequence.nextTokenIndex === 0 ? 0 : usedAt)
