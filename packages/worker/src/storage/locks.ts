// Locks, in memory only: after a restart nothing runs, and installed versions are kept by their records.
//   holds       keep blobs and trees from being collected while an install or a process uses them
//   claims      allow one job at a time per digest, which is held meanwhile
//   semaphores  limit how many jobs run at a time; with a limit of 1 they are locks
import type { Digest } from '@muster/protocol'
import { withSigns } from './signs.ts'

export interface Holds {
  /** Keeps blobs and trees until the hold is disposed. Take the hold before checking whether they exist. */
  hold(digests: readonly Digest[]): Disposable
  /** Records every digest that is held now or later, however briefly, until the observer is disposed. */
  observe(): HoldObserver
}

interface HoldObserver extends Disposable {
  has(digest: Digest): boolean
}

export function createHolds(): Holds {
  const counts = new Map<Digest, number>()
  const observers = new Set<Set<Digest>>()
  const count = (digests: readonly Digest[], by: 1 | -1): void => {
    for (const digest of digests) {
      const holders = (counts.get(digest) ?? 0) + by
      if (holders > 0) counts.set(digest, holders)
      else counts.delete(digest)
    }
  }
  return {
    hold: (digests) => {
      const held = [...digests]
      count(held, 1)
      for (const seen of observers) for (const digest of held) seen.add(digest)
      return {
        [Symbol.dispose]: () => {
          count(held, -1)
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

export interface Claims {
  /** Waits for other work on the first digest to end. All digests are held from the call on. */
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

/** A claim that sends signs of life while it waits for other work on the same digest. */
export function claimWithSigns(claims: Claims): Claim {
  return (digests, { signal, onSign }, work) =>
    withSigns(onSign, (stop) =>
      claims.claim(digests, signal, () => {
        stop()
        return work()
      }),
    )
}

/** Tasks beyond the limit run in the order in which they came. */
export interface Semaphore {
  run<Result>(signal: AbortSignal, task: () => Promise<Result>): Promise<Result>
  readonly isUsed: () => boolean
}

export function createSemaphore(limit: number): Semaphore {
  const queue: (() => void)[] = []
  let running = 0
  const release = (): void => {
    running--
    queue.shift()?.()
  }
  const enter = async (signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted()
    if (running < limit) return void running++
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

/** A lock per key; unused locks take no memory. */
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
