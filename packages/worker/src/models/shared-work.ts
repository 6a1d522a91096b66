// Runs the same work once for several concurrent callers: every caller gets its progress, and the work is aborted when the
// last caller leaves.
import { abortable } from '@muster/host'
import type { WorkProgress } from '../work/reports.ts'
import type { StageContext } from './model-files.ts'

interface SharedRun<T> {
  readonly callers: Set<StageContext>
  readonly stopping: AbortController
  readonly result: Promise<T>
  last: WorkProgress | null
}

export function createSharedWork<T>(): (key: string, context: StageContext, work: (context: StageContext) => Promise<T>) => Promise<T> {
  const running = new Map<string, SharedRun<T>>()

  const start = (key: string, work: (context: StageContext) => Promise<T>): SharedRun<T> => {
    const callers = new Set<StageContext>()
    const stopping = new AbortController()
    const context: StageContext = {
      signal: stopping.signal,
      onProgress: (progress) => {
        run.last = progress
        for (const caller of callers) caller.onProgress(progress)
      },
      onSign: () => {
        for (const caller of callers) caller.onSign()
      },
    }
    const result = Promise.resolve()
      .then(() => work(context))
      .finally(() => {
        if (running.get(key) === run) running.delete(key)
      })
    // Callers that left have had their error already.
    result.catch(() => undefined)
    const run: SharedRun<T> = { callers, stopping, result, last: null }
    running.set(key, run)
    return run
  }

  return async (key, context, work) => {
    context.signal.throwIfAborted()
    const joined = running.get(key) ?? start(key, work)
    joined.callers.add(context)
    if (joined.last !== null) context.onProgress(joined.last)
    try {
      return await abortable(joined.result, context.signal)
    } finally {
      joined.callers.delete(context)
      if (joined.callers.size === 0) {
        // New callers start again. The last one leaves after the aborted work has released its holds.
        if (running.get(key) === joined) running.delete(key)
        joined.stopping.abort(context.signal.reason)
        await joined.result.catch(() => undefined)
      }
    }
  }
}
