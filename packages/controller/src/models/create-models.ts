// Assembles the models: views, uploads, the catalogue, and the loops behind operations about models.
import type { Bus } from '@muster/bus'
import { type Clock, createLoop, type Log } from '@muster/host'
import { createBaseFiles, createListRepository, type Outbound } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { builtinGalleryName, controllerSettings, type ControllerSettings, retryOf } from '../settings.ts'
import type { LoadInfoStore, ModelStore } from '../store/models.ts'
import type { Store } from '../store/store.ts'
import { revisionOf } from './config.ts'
import { createJobsLoop } from './jobs-loop.ts'
import { createMeasureFiles } from './measure-files.ts'
import { builtinOffers, createModelCatalogue, findEntry } from './model-catalogue.ts'
import { createReceiveUpload } from './model-files.ts'
import { createPlanModelInstall, planOwn } from './plan-install.ts'
import { createPrefetchLoop } from './prefetch-loop.ts'
import { createRemovals } from './removals.ts'
import { createShowModels } from './view.ts'

export interface ModelsDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: ControllerSettings
  /** This process; when it is gone, other controllers take over its work. */
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
    retry: retryOf(settings),
  })
  const prefetches = createPrefetchLoop({ store: store.nodeModels, onSubmitted: jobs.wake, intervalMs, clock, log })
  const loadInfo = createKeepLoadInfo({ loadInfo: store.loadInfo, clock, log })
  const { outbound, stopping } = ways
  const catalogue = createModelCatalogue({ ...ways, galleries: store.galleries, clock })
  const bases = createBaseFiles({ outbound, clock })
  const hf = { endpoint: settings.hfEndpoint || controllerSettings.hfEndpoint.default, token: settings.hfToken ?? null }
  const origins = { hf, s3: { endpoint: null, region: '', credentials: null } }
  const planInstall = createPlanModelInstall({
    ...{ catalogue, nodes: store.nodes, bases, stopping },
    list: createListRepository({ outbound, ...hf, clock, log }),
    measure: createMeasureFiles({ outbound, origins, clock }),
  })
  return {
    show,
    read,
    catalogue,
    bases,
    planInstall,
    stopping,
    receiveUpload: createReceiveUpload({ holders: store.fileHolders, models: store.models, controller: holder, clock, log }),
    /** True when a replica serves the model. */
    noteReady: loadInfo.wake,
    wake(): void {
      jobs.wake()
      removals.wake()
      prefetches.wake()
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([jobs.run(signal), removals.run(signal), prefetches.run(signal), loadInfo.run(signal)])
    },
  }
}

/** The models of a new installation. Registered once: a deleted one does not come back at the next start. */
export async function registerFirstModels(
  names: readonly string[],
  { builtin, models }: { builtin: BuiltinBlobs; models: ModelStore },
): Promise<void> {
  const offered = { order: [builtinGalleryName], models: builtinOffers(builtin), problems: [], leftOut: [] }
  const configs = names.map((name) => planOwn(findEntry(offered, name)))
  await models.begin(configs.map((config) => ({ config, revision: revisionOf(config) })))
}

// Stores the parameters of each model's last load. It remembers nothing: a replica that becomes ready only wakes it. Serving does
// not wait for it: a failed save is repeated later and logged once.

interface KeepLoadInfoDeps {
  readonly loadInfo: Pick<LoadInfoStore, 'saveNew'>
  readonly clock: Clock
  readonly log: Log
}

/** The safety poll, for a controller that was killed between the last step of a load and this. */
const idleMs = 10_000
/** Replicas that become ready at once are saved in one statement. */
const breathMs = 100

export function createKeepLoadInfo({ loadInfo, clock, log }: KeepLoadInfoDeps) {
  const loop = createLoop({ what: 'cannot save the parameters of loads; retrying', breathMs, clock, log })
  return {
    wake: loop.wake,
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        await loadInfo.saveNew()
        return idleMs
      }, signal),
  }
}
