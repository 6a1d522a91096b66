// All queries of a controller, by subject.
import { type Log, silentLog } from '@muster/host'
import type { Kysely } from 'kysely'
import { AccessStore } from './access.ts'
import { AvailableStore, GalleryStore, DutyStore } from './galleries.ts'
import { ChangeStore } from './changes.ts'
import { ControllerStore, RouteStore } from './routes.ts'
import { FileContentStore } from './file-contents.ts'
import { FileHolderStore, InventoryStore } from './inventory.ts'
import { IntentStore } from './intents.ts'
import { LoadInfoStore, ModelStore } from './models.ts'
import { LoadStore } from './loads.ts'
import { ModelJobStore } from './model-jobs.ts'
import { ModelOperationStore } from './model-operations.ts'
import { ModelRemovalStore } from './model-removals.ts'
import { ModelSubmissionStore } from './model-submissions.ts'
import { NodeModelStore } from './node-models.ts'
import { NodeStore } from './nodes.ts'
import { OperationStore } from './operations.ts'
import { PauseStore } from './pauses.ts'
import { PinStore } from './pins.ts'
import { PlacementStore } from './placement.ts'
import { PulseStore } from './pulses.ts'
import { createRowReader } from './readable-rows.ts'
import { ReopenStore } from './reopen.ts'
import { ReplicaCheckStore, ReplicaStore } from './replicas.ts'
import { RolloutStore } from './rollouts.ts'
import { RuntimeSettingStore } from './runtime-settings.ts'
import { ScalingStore } from './scaling.ts'
import { SchedulingRuleStore } from './scheduling-rules.ts'
import { StatsStore } from './stats.ts'
import type { Database } from './tables.ts'
import { SubmissionStore } from './submissions.ts'

export type Store = ReturnType<typeof createStore>

/** `log` reports rows that this version cannot read. */
export function createStore(db: Kysely<Database>, log: Log = silentLog) {
  const reader = createRowReader(log)
  const models = new ModelStore(db)
  return {
    access: new AccessStore(db),
    available: new AvailableStore(db),
    changes: new ChangeStore(db),
    controllers: new ControllerStore(db),
    duties: new DutyStore(db),
    fileContents: new FileContentStore(db),
    fileHolders: new FileHolderStore(db),
    galleries: new GalleryStore(db),
    intents: new IntentStore(db, reader),
    inventory: new InventoryStore(db),
    loadInfo: new LoadInfoStore(db),
    loads: new LoadStore(db, reader),
    modelJobs: new ModelJobStore(db),
    modelOperations: new ModelOperationStore(db),
    modelRemovals: new ModelRemovalStore(db),
    modelSubmissions: new ModelSubmissionStore(db),
    models,
    nodeModels: new NodeModelStore(db),
    nodes: new NodeStore(db),
    operations: new OperationStore(db, reader),
    pauses: new PauseStore(db),
    pins: new PinStore(db),
    placement: new PlacementStore(db),
    pulses: new PulseStore(db),
    reopen: new ReopenStore(db),
    replicaChecks: new ReplicaCheckStore(db),
    replicas: new ReplicaStore(db, reader),
    rollouts: new RolloutStore(db, reader),
    routes: new RouteStore(db),
    runtimeSettings: new RuntimeSettingStore(db),
    scaling: new ScalingStore(db),
    schedulingRules: new SchedulingRuleStore(db, (model, scheduling) => models.applyRule(model, scheduling)),
    stats: new StatsStore(db),
    submissions: new SubmissionStore(db),
  }
}
