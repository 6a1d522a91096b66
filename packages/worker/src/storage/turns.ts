// Lets a number of tasks run at a time, the others in the order in which they came. With a number of 1 it is a lock.

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
