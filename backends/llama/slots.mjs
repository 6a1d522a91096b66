// Who generates now, and who waits: one slot per sequence of the context, first come first served. Of several free ones
// the slot that remembers most of the prompt is taken, so that a conversation finds its beginning evaluated already.

export function createSlots(sequences) {
  const free = sequences.map((sequence) => ({ sequence, usedAt: 0 }))
  const waiting = []
  let uses = 0

  const take = (tokens) => {
    let best = 0
    let bestShared = -1
    for (const [at, { sequence, usedAt }] of free.entries()) {
      const shared = sequence.compareContextTokens(tokens).firstDifferentIndex
      if (shared < bestShared || (shared === bestShared && usedAt >= free[best].usedAt)) continue
      best = at
      bestShared = shared
    }
    return free.splice(best, 1)[0]
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
