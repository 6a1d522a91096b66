// Records when each model was last requested, so that idle replicas can be removed. Written periodically, outside the
// request path.
import { createLoop, type Clock, type Log } from '@muster/host'
import { createInFlight } from '../routing/in-flight.ts'
import type { RouteStore } from '../store/routes.ts'

const writeEveryMs = 10_000
/** Several writes have to fit into the time after which a model counts as idle. */
const writesPerIdle = 3
const minimumPauseMs = 100

export interface LastUseDeps {
  readonly routes: Pick<RouteStore, 'markUsed'>
  /** Read before each pause. */
  readonly idleMs: number
  readonly clock: Clock
  readonly log: Log
}

export function createLastUse(deps: LastUseDeps) {
  const { routes, clock, log } = deps
  const used = new Set<string>()
  const open = createInFlight()
  const everyMs = (): number => Math.max(Math.min(writeEveryMs, deps.idleMs / writesPerIdle), minimumPauseMs)
  const loop = createLoop({ what: 'cannot record the last use of models; retrying', clock, log, retryMs: everyMs() })

  async function write(): Promise<void> {
    // A response may take longer than a model may be idle.
    const models = [...new Set([...used, ...open.ids()])]
    used.clear()
    try {
      await routes.markUsed(models)
    } catch (error) {
      for (const model of models) used.add(model)
      throw error
    }
  }

  return {
    /** The model is in use until the result is disposed. */
    open(model: string): Disposable {
      const request = open.open(model)
      return {
        [Symbol.dispose]() {
          request[Symbol.dispose]()
          used.add(model)
        },
      }
    },
    /** Runs until aborted, and writes once more at the end. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async () => {
        await write()
        return everyMs()
      }, signal)
      await write().catch(() => undefined)
    },
  }
}
