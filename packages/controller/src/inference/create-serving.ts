// The parts of the data path, put together.
import type { Clock, Log } from '@muster/host'
import type { ChangeFeed } from '../events/feed.ts'
import { createDispatch } from '../routing/dispatch.ts'
import { createGateways } from '../routing/gateways.ts'
import { createInFlight } from '../routing/in-flight.ts'
import { ReplicaTable } from '../routing/replica-table.ts'
import { createSuspects } from '../routing/suspects.ts'
import type { ControllerSettings } from '../settings.ts'
import type { RouteStore } from '../store/routes.ts'
import type { ColdLoads } from './cold-loads.ts'
import { createColdModels } from './cold-models.ts'
import { createInference } from './serve.ts'
import { createUsedMarks } from './used-marks.ts'

export interface ServingDeps {
  readonly routes: RouteStore
  readonly feed: ChangeFeed
  readonly controllerId: string
  readonly settings: Pick<ControllerSettings, 'modelLoadWait' | 'exposeRouting'>
  readonly errorEvent: (message: string) => string
  readonly clock: Clock
  readonly log: Log
  readonly loads?: ColdLoads
}

/** Nothing loads models yet: what is there is served, and nothing else comes up. */
const noLoads: ColdLoads = {
  ensure: async (model) => ({ kind: 'no_capacity', message: `model ${model} is not loaded, and nothing here loads models yet` }),
  status: async (model) => noLoads.ensure(model),
}

export function createServing({ routes, feed, controllerId, settings, clock, log, loads = noLoads, errorEvent }: ServingDeps) {
  const table = new ReplicaTable({ routes, controllerId, clock, log })
  feed.listen(({ changes }) => table.note(changes))
  const inFlight = createInFlight()
  const suspects = createSuspects(clock)
  const gateways = createGateways()
  const dispatch = createDispatch({ table, inFlight, suspects, gateways, log, onRetry: () => undefined })
  const cold = createColdModels({ table, loads, suspects, clock })
  const used = createUsedMarks({ routes, clock, log })
  const inference = createInference({
    ...{ table, dispatch, cold, clock, errorEvent },
    loadWaitMs: settings.modelLoadWait,
    exposeRouting: settings.exposeRouting,
    onAsked: used.note,
    onSend: () => ({ [Symbol.dispose]: () => undefined }),
    onServed: ({ model }) => used.note(model),
  })
  return {
    inference,
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([table.run(signal), used.run(signal)])
      await gateways.close()
    },
  }
}
