// Lets a number of tasks run at a time, the others in the order in which they came. With a number of 1 it is a lock.
import type { Digest } from '@muster/protocol'
import { withSigns } from './signs.ts'

export interface Semaphore {
  run<Result>(signal: AbortSignal, task: () => Promise<Result>): Promise<Result>
  readonly isUsed: () => boolean
}

export function createSemaphore(atATime: number): Semaphore {
  const queue: (() => void)[] = []
  let running = 0
  const release = (): void => {
    running--
    queue.shift()?.()
  }
  const enter = async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    if (running < atATime) return void running++
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        queue.splice(queue.indexOf(go), 1)
        reject(signal.reason as Error)
      }
      const go = (): void => {
        signal.removeEventListener('abort', leave)
        running++
        resolve()
      }
      queue.push(go)
      signal.addEventListener('abort', leave, { once: true })
    })
  }
  return {
    run: async (signal, task) => {
      await enter(signal)
      try {
        return await task()
      } finally {
        release()
      }
    },
    isUsed: () => running > 0 || queue.length > 0,
  }
}

/** A lock per key; those nobody uses take no memory. */
export interface KeyedLocks {
  run<Result>(key: string, signal: AbortSignal, task: () => Promise<Result>): Promise<Result>
}

export function createKeyedLocks(): KeyedLocks {
  const locks = new Map<string, Semaphore>()
  return {
    run: async (key, signal, task) => {
      const lock = locks.get(key) ?? createSemaphore(1)
      locks.set(key, lock)
      try {
        return await lock.run(signal, task)
      } finally {
        if (!lock.isUsed()) locks.delete(key)
      }
    },
  }
}

// Work on blobs and trees that must not be disturbed: one at a time on the same digest, and nothing of it collected.

export interface Claims {
  /** Waits until nobody else works on the first digest; all of them are held meanwhile. */
  claim<Result>(digests: readonly [Digest, ...Digest[]], signal: AbortSignal, work: () => Promise<Result>): Promise<Result>
}

export function createClaims(holds: Holds): Claims {
  const locks = createKeyedLocks()
  return {
    claim: async (digests, signal, work) => {
      const held = holds.hold(digests)
      try {
        return await locks.run(digests[0], signal, work)
      } finally {
        held[Symbol.dispose]()
      }
    },
  }
}

type Claim = <T>(
  digests: readonly [Digest, ...Digest[]],
  options: { readonly signal: AbortSignal; readonly onSign?: () => void },
  work: () => Promise<T>,
) => Promise<T>

/** Whoever waits for somebody else's work on the same is alive. */
export function claimWithSigns(claims: Claims): Claim {
  return (digests, { signal, onSign }, work) =>
    withSigns(onSign, (come) =>
      claims.claim(digests, signal, () => {
        come()
        return work()
      }),
    )
}

// What is in use right now, by installs and by processes that run from a tree. In memory only: after a restart nobody
// uses anything, and what is installed is held by its record.

export interface Holds {
  /** Blobs and trees that stay until the hold is disposed of. Take it before asking whether they are there. */
  hold(digests: readonly Digest[]): Disposable
  /** Sees what is held now and whatever is held later, however short, until it is disposed of. */
  observe(): HoldObserver
}

interface HoldObserver extends Disposable {
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
