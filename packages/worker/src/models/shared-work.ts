// The same work for several callers at once is done once: everybody hears how it goes, and it is called off when the
// last of them has gone.
import type { WorkProgress } from '../work/progress.ts'
import type { StageContext } from './model-files.ts'

interface SharedRun<T> {
  readonly callers: Set<StageContext>
  readonly stopping: AbortController
  readonly result: Promise<T>
  last: WorkProgress | null
}

export function createSharedWork<T>(): (key: string, context: StageContext, work: (context: StageContext) => Promise<T>) => Promise<T> {
  const running = new Map<string, SharedRun<T>>()

  const begin = (key: string, work: (context: StageContext) => Promise<T>): SharedRun<T> => {
    const callers = new Set<StageContext>()
    const stopping = new AbortController()
    const context: StageContext = {
      signal: stopping.signal,
      onProgress: (progress) => {
        begun.last = progress
        for (const caller of callers) caller.onProgress(progress)
      },
      onSign: () => {
        for (const caller of callers) caller.onSign()
      },
    }
    const result = Promise.resolve()
      .then(() => work(context))
      .finally(() => {
        if (running.get(key) === begun) running.delete(key)
      })
    // Those who called it off have been told so already.
    result.catch(() => undefined)
    const begun: SharedRun<T> = { callers, stopping, result, last: null }
    running.set(key, begun)
    return begun
  }

  return async (key, context, work) => {
    context.signal.throwIfAborted()
    const joined = running.get(key) ?? begin(key, work)
    joined.callers.add(context)
    if (joined.last !== null) context.onProgress(joined.last)
    const left = new AbortController()
    try {
      return await Promise.race([joined.result, aborted(context.signal, left.signal)])
    } finally {
      left.abort()
      joined.callers.delete(context)
      if (joined.callers.size === 0) {
        // From here on it is nobody's: whoever comes now begins anew. The last one goes when it has let go of what it holds.
        if (running.get(key) === joined) running.delete(key)
        joined.stopping.abort(context.signal.reason)
        await joined.result.catch(() => undefined)
      }
    }
  }
}

/** Never resolves. */
function aborted(signal: AbortSignal, done: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error)
    signal.addEventListener('abort', abort, { once: true })
    done.addEventListener('abort', () => signal.removeEventListener('abort', abort), { once: true })
  })
}
