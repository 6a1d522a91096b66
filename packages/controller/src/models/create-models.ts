// The parts that carry models, put together: what is shown of them, and the loop that follows operations about them.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import type { Outbound } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { ControllerSettings } from '../settings.ts'
import type { Store } from '../store/store.ts'
import { createJobsLoop } from './jobs-loop.ts'
import { createKeepLoadInfo } from './keep-load-info.ts'
import { createModelCatalogue } from './model-catalogue.ts'
import { createReceiveUpload } from './receive-upload.ts'
import { createRemovals } from './removals.ts'
import { createShowModels } from './show-models.ts'

export interface ModelsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: ControllerSettings
  /** This process; what it holds is taken over when it is gone. */
  readonly holder: string
  readonly builtin: Promise<BuiltinBlobs>
  readonly outbound: Outbound
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}
export type Models = ReturnType<typeof createModels>

export function createModels({ bus, store, settings, holder, clock, log, ...ways }: ModelsDeps) {
  const { show, read } = createShowModels(store)
  const intervalMs = settings.reconcileInterval
  const jobs = createJobsLoop({ bus, jobs: store.modelJobs, intervalMs, clock, log })
  const removals = createRemovals({
    ...{ bus, removals: store.modelRemovals, holder, intervalMs, random: Math.random, clock, log },
    retry: { baseMs: settings.opRetryBase, maxMs: settings.opRetryMax },
  })
  const loadInfo = createKeepLoadInfo({ loadInfo: store.loadInfo, clock, log })
  return {
    show,
    read,
    catalogue: createModelCatalogue({ ...ways, galleries: store.galleries, clock }),
    receiveUpload: createReceiveUpload({ holders: store.fileHolders, models: store.models, controller: holder, clock, log }),
    /** A process serves a model. */
    noteReady: loadInfo.wake,
    wake(): void {
      jobs.wake()
      removals.wake()
    },
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([jobs.run(signal), removals.run(signal), loadInfo.run(signal)])
    },
  }
}
