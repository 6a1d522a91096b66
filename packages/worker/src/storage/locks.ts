// Locks, in memory only: after a restart nothing runs, and installed versions are kept by their records.
//   holds       keep blobs and trees from being collected while an install or a process uses them
//   claims      allow one job at a time per digest, which is held meanwhile
//   semaphores  limit how many jobs run at a time; with a limit of 1 they are locks
import type { Digest } from '@muster/protocol'
import { withSigns } from './signs.ts'

export interface Holds<Key = Digest> {
  /** Keeps blobs and trees until the hold is disposed. Take the hold before checking whether they exist. */
  hold(keys: readonly Key[]): Disposable
  isHeld(key: Key): boolean
  /** Records every digest that is held now or later, however briefly, until the observer is disposed. */
  observe(): Disposable & { has(key: Key): boolean }
}

export function createHolds<Key = Digest>(): Holds<Key> {
  const counts = new Map<Key, number>()
  const observers = new Set<Set<Key>>()
  const count = (keys: readonly Key[], by: 1 | -1): void => {
    for (const key of keys) {
      const holders = (counts.get(key) ?? 0) + by
      if (holders > 0) counts.set(key, holders)
      else counts.delete(key)
    }
  }
  return {
    isHeld: (key) => counts.has(key),
    hold: (keys) => {
      const held = [...keys]
      count(held, 1)
      for (const seen of observers) for (const key of held) seen.add(key)
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
      return { has: (key) => seen.has(key), [Symbol.dispose]: () => void observers.delete(seen) }
    },
  }
}

/** Waits for other work on the first digest to end, with signs of life. All digests are held from the call on. */
export type Claim = <T>(
  digests: readonly [Digest, ...Digest[]],
  options: { readonly signal: AbortSignal; readonly onSign?: () => void },
  work: () => Promise<T>,
) => Promise<T>

export function createClaim(holds: Holds): Claim {
  const lock = createKeyedLock()
  return async (digests, { signal, onSign }, work) => {
    using held = new DisposableStack()
    held.use(holds.hold(digests))
    return await withSigns(onSign, (stop) =>
      lock(digests[0], signal, () => {
        stop()
        return work()
      }),
    )
  }
}

/** The signal of work too short to be cancelled. */
export const never = new AbortController().signal

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
export function createKeyedLock(): <Result>(key: string, signal: AbortSignal, task: () => Promise<Result>) => Promise<Result> {
  const locks = new Map<string, Semaphore>()
  return async (key, signal, task) => {
    const lock = locks.get(key) ?? createSemaphore(1)
    locks.set(key, lock)
    try {
      return await lock.run(signal, task)
    } finally {
      if (!lock.isUsed()) locks.delete(key)
    }
  }
}
