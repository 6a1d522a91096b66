// Keeps the progress of operations from going back: when a node turns out to have more to fetch than expected, or when an attempt
// fails and starts again. The shown progress is stored once a second, so that no controller shows less later.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import type { OperationId, OperationView } from '@muster/protocol'
import type { OperationStore } from '../store/operations.ts'

export interface BarsDeps {
  readonly operations: Pick<OperationStore, 'raiseProgress'>
  readonly clock: Clock
  readonly log: Log
}

const keepEveryMs = 1_000
const forgetAfterMs = 60_000

type Bar = { progress: number; fileName: string; isKept: boolean; shownAt: number }

export function createBars({ operations, clock, log }: BarsDeps) {
  const bars = new Map<OperationId, Bar>()
  const trouble = createFailureStreak({ what: 'cannot store the progress of operations; retrying', clock, log })

  const keep = async (): Promise<void> => {
    const raised = [...bars].filter(([, bar]) => !bar.isKept)
    try {
      await operations.raiseProgress(raised.map(([id, { progress, fileName }]) => ({ id, progress, fileName })))
      for (const [, bar] of raised) bar.isKept = true
      trouble.recovered()
    } catch (error) {
      trouble.failed({ error, operations: raised.length })
    }
    const old = clock.monotonic() - forgetAfterMs
    for (const [id, bar] of bars) if (bar.isKept && bar.shownAt < old) bars.delete(id)
  }

  return {
    /** Returns the view with at least the progress shown before. `kept`: the stored progress. */
    raise(view: OperationView, kept: number): OperationView {
      const bar = bars.get(view.id)
      // A finished operation does not change any more.
      if (bar === undefined && view.finished_at !== null) return view
      const progress = Math.max(view.progress, bar?.progress ?? 0)
      const isKept = bar?.progress === progress ? bar.isKept : progress <= kept
      bars.set(view.id, { progress, fileName: view.file_name, isKept, shownAt: clock.monotonic() })
      return { ...view, progress }
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await keep()
        await clock.sleep(keepEveryMs, signal).catch(() => undefined)
      }
      await keep()
    },
  }
}
