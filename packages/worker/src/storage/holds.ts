// What is in use right now, by installs and by processes that run from a tree. In memory only: after a restart nobody
// uses anything, and what is installed is held by its record.
import type { Digest } from '@muster/protocol'

export interface Holds {
  /** Blobs and trees that stay until the hold is disposed of. Take it before asking whether they are there. */
  hold(digests: readonly Digest[]): Disposable
  /** Sees what is held now and whatever is held later, however short, until it is disposed of. */
  observe(): HoldObserver
}

export interface HoldObserver extends Disposable {
  has(digest: Digest): boolean
}

export function createHolds(): Holds {
  const counts = new Map<Digest, number>()
  const observers = new Set<Set<Digest>>()
  const change = (digests: readonly Digest[], by: 1 | -1): void => {
    for (const digest of digests) {
      const count = (counts.get(digest) ?? 0) + by
      if (count > 0) counts.set(digest, count)
      else counts.delete(digest)
    }
  }
  return {
    hold: (digests) => {
      const held = [...digests]
      change(held, 1)
      for (const seen of observers) for (const digest of held) seen.add(digest)
      return {
        [Symbol.dispose]: () => {
          change(held, -1)
          held.length = 0
        },
      }
    },
    observe: () => {
      const seen = new Set(counts.keys())
      observers.add(seen)
      return { has: (digest) => seen.has(digest), [Symbol.dispose]: () => void observers.delete(seen) }
    },
  }
}
