// When each model was last asked for, so that what nobody asks for can go. Written now and then, never while a request waits.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import { createInFlight } from '../routing/in-flight.ts'
import type { RouteStore } from '../store/routes.ts'

const writeEveryMs = 10_000
/** Several writes have to fit into the time after which a model counts as idle. */
const writesPerIdle = 3
const leastPauseMs = 100

export interface UsedMarksDeps {
  readonly routes: Pick<RouteStore, 'markUsed'>
  readonly idleMs: number
  readonly clock: Clock
  readonly log: Log
}

export function createUsedMarks({ routes, idleMs, clock, log }: UsedMarksDeps) {
  const used = new Set<string>()
  const open = createInFlight()
  const everyMs = Math.max(Math.min(writeEveryMs, idleMs / writesPerIdle), leastPauseMs)
  const trouble = createFailureStreak({ what: 'which models were used can not be written', clock, log })

  async function write(): Promise<void> {
    // An answer may take longer than a model may be idle.
    const models = [...new Set([...used, ...open.ids()])]
    used.clear()
    await routes.markUsed(models).then(
      () => trouble.recovered(),
      (error: unknown) => {
        for (const model of models) used.add(model)
        trouble.failed({ error })
      },
    )
  }

  return {
    /** Somebody asks for it: it is in use until that is disposed. */
    open(model: string): Disposable {
      const request = open.open(model)
      return {
        [Symbol.dispose]() {
          request[Symbol.dispose]()
          used.add(model)
        },
      }
    },
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await clock.sleep(everyMs, signal).catch(() => undefined)
        await write()
      }
    },
  }
}
