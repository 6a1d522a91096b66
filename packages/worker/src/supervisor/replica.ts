// The state of one replica on this worker: its record and stage, its process, and its requests in flight. run-replica.ts moves it
// from stage to stage. The record on disk is one small file, replaced atomically, so that a killed worker finds its processes
// again and resumes the loads it accepted.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isTemporary, makeDirectory, settlesWithin, writeFileAtomic, type Clock, type Log, type Step } from '@muster/host'
import { Digest, type Failure, LoadModel, NodeId, OperationId, ReplicaId } from '@muster/protocol'
import { z } from 'zod'
import type { BackendAddress, BackendConnection, Driver } from '../drivers/driver.ts'
import type { ModelFiles } from '../models/model-files.ts'
import type { ProgressReporter } from '../work/reports.ts'
import { notStored, type RegisteredWork } from '../work/work-registry.ts'
import type { Addresses, LeadProcess } from './backend-process.ts'
import type { LogFiles } from './log-files.ts'
import { Stage, step, type ReplicaEvent } from './replica.pure.ts'
import type { Admission } from './replicas.ts'
import type { InstalledBackends } from './run-replica.ts'

/** Incremented when an older worker could no longer read it. */
const recordFormat = 1

export const ReplicaRecord = z.object({
  format: z.literal(recordFormat),
  /** The node that the load was sent to; null: the worker was no node then. */
  node: NodeId.nullable(),
  order: LoadModel,
  /** A process without a model, for legacy controllers, which load it themselves. */
  isBare: z.boolean(),
  /** The operations that wait for this load. */
  opIds: z.array(OperationId).max(256),
  notedAt: z.number(),
  /** The tree that its process was started from. */
  digest: Digest.nullable(),
  /**
   * The digest of that version in the inventory, or the last one while it was in use: reported as long as the process runs,
   * whatever is installed meanwhile. Null: not started yet, or started by an older worker.
   */
  listed: Digest.nullable().default(null),
  stage: Stage,
})
export type ReplicaRecord = z.infer<typeof ReplicaRecord>

interface ReplicaRecords {
  /** Durable when it resolves; throws FleetError (`disk_full`, `unavailable`). */
  write(record: ReplicaRecord): Promise<void>
  remove(id: ReplicaId): Promise<void>
}

type Drivers = Readonly<Partial<Record<Driver['name'], Driver>>>

export type Pace = Readonly<{
  /** A process that is not ready is stopped after this time without a sign of life. */
  silenceMs: number
  /** Between SIGTERM and SIGKILL. */
  graceMs: number
  /** The time that requests have to end before their process is stopped. */
  drainMs: number
  /** The same while the worker stops. */
  leaveMs: number
}>

export type ReplicaDeps = Readonly<{
  records: ReplicaRecords
  backends: InstalledBackends
  models: Pick<ModelFiles, 'stage' | 'remove'>
  drivers: Drivers
  logs: LogFiles
  addresses: Addresses
  workerId: string
  /** The environment of this process; backends get an allow-listed part of it. */
  env: Readonly<Record<string, string | undefined>>
  pace: Pace
  /** Called after the new stage is stored. */
  onMoved: (replica: Replica, before: Stage) => void
  clock: Clock
  log: Log
  step: Step
}>

export interface Replica {
  readonly id: ReplicaId
  record: ReplicaRecord
  readonly reporter: ProgressReporter
  /** Set once its operation IDs are registered. */
  registered: RegisteredWork | null
  /** Rejects when the load could not be stored; the replica is dropped then. */
  recorded: Promise<void>
  process: LeadProcess | null
  address: BackendAddress | null
  connection: BackendConnection | null
  /** Held while a process runs: its tree, its model files, its log. */
  readonly resources: DisposableStack
  /** Aborts the load. */
  readonly loadAbort: AbortController
  isLoading: boolean
  cancelFailure: Failure | null
  /** The worker stops: a load is left to the next start. */
  isShuttingDown: boolean
  /** Aborted by a forced unload: requests are not waited for. */
  readonly skipDrain: AbortController
  stopping: Promise<void> | null
  inFlight: number
  readonly onIdle: Set<() => void>
  /** Resolves when it is ready; rejects when it ends first. */
  readonly ready: PromiseWithResolvers<void>
  /** Resolves when none of its processes is left. */
  readonly gone: PromiseWithResolvers<void>
  saving: Promise<void>
}

export function createReplica(record: ReplicaRecord, reporter: ProgressReporter): Replica {
  const ready = Promise.withResolvers<void>()
  // Callers may ignore it.
  ready.promise.catch(() => undefined)
  const gone = Promise.withResolvers<void>()
  if (record.stage.state === 'gone') gone.resolve()
  return {
    id: record.order.replica_id,
    record,
    reporter,
    registered: null,
    recorded: Promise.resolve(),
    process: null,
    address: null,
    connection: null,
    resources: new DisposableStack(),
    loadAbort: new AbortController(),
    isLoading: false,
    cancelFailure: null,
    isShuttingDown: false,
    skipDrain: new AbortController(),
    stopping: null,
    inFlight: 0,
    onIdle: new Set(),
    ready,
    gone,
    saving: Promise.resolve(),
  }
}

export const stateOf = (replica: Replica): Stage['state'] => replica.record.stage.state
export const isGone = (replica: Replica): boolean => stateOf(replica) === 'gone'

/** False: the event is not legal in this stage. Rejects only where a process would otherwise have no record. */
export async function move(replica: Replica, event: ReplicaEvent, deps: ReplicaDeps): Promise<boolean> {
  const before = replica.record.stage
  const stage = step(before, event)
  if (stage === null) {
    deps.log.debug('replica event ignored', { replica_id: replica.id, state: before.state, event: event.type })
    return false
  }
  replica.record = { ...replica.record, stage, ...(event.type === 'spawned' ? { digest: event.run.digest } : {}) }
  await save(replica, deps).catch((error: unknown) => {
    if (event.type === 'spawned') throw error
    deps.log.error('cannot store the stage of a replica', { replica_id: replica.id, state: stage.state, error })
  })
  deps.onMoved(replica, before)
  return true
}

/** Writes one after the other, each time the newest record. */
export function save(replica: Replica, { records }: Pick<ReplicaDeps, 'records'>): Promise<void> {
  const written = replica.saving.then(() => records.write(replica.record))
  replica.saving = written.catch(() => undefined)
  return written
}

export function admit(replica: Replica): Admission | 'gone' | 'draining' {
  const state = stateOf(replica)
  if (state === 'draining' || state === 'stopping') return 'draining'
  const { connection } = replica
  if (state !== 'ready' || connection === null || replica.process?.hasExited() !== false) return 'gone'
  replica.inFlight += 1
  let isOver = false
  return {
    connection,
    inFlight: () => replica.inFlight,
    [Symbol.dispose]() {
      if (isOver) return
      isOver = true
      replica.inFlight -= 1
      if (replica.inFlight === 0) for (const onIdle of replica.onIdle) onIdle()
    },
  }
}

/** Waits until no request is in flight, the time is over, or a forced unload aborts the wait. */
export async function untilIdle(replica: Replica, ms: number, { clock }: Pick<ReplicaDeps, 'clock'>): Promise<void> {
  if (replica.inFlight === 0) return
  const idle = Promise.withResolvers<void>()
  replica.onIdle.add(idle.resolve)
  await settlesWithin({ clock, ms, signal: replica.skipDrain.signal }, Promise.race([idle.promise, replica.gone.promise]))
  replica.onIdle.delete(idle.resolve)
}

/** `newer`: replicas whose records a newer Muster wrote; they are left untouched. */
export async function openReplicaRecords({ directory, log }: { directory: string; log: Log }) {
  await makeDirectory(directory, { mode: 0o700 })
  const pathOf = (id: ReplicaId): string => join(directory, `${id}.json`)
  const found: ReplicaRecord[] = []
  const newer: ReplicaId[] = []
  for (const name of await readdir(directory)) {
    const path = join(directory, name)
    const id = ReplicaId.safeParse(name.replace(/\.json$/, ''))
    if (isTemporary(name)) await rm(path, { force: true })
    if (!name.endsWith('.json') || !id.success) continue
    const read = parseRecord(await readFile(path, 'utf8'))
    if (read === 'newer') {
      log.error('replica record written by a newer version; not loading models until that version runs again', {
        path,
      })
      newer.push(id.data)
    } else if (read === 'damaged' || read.order.replica_id !== id.data) {
      log.error('damaged replica record removed', { path })
      await rm(path, { force: true })
    } else found.push(read)
  }
  const records: ReplicaRecords = {
    write: (record) =>
      writeFileAtomic(pathOf(record.order.replica_id), JSON.stringify(record), { mode: 0o600 }).catch((error: unknown) =>
        Promise.reject(notStored('the replica', error)),
      ),
    remove: (id) => rm(pathOf(id), { force: true }),
  }
  return { records, found: found.toSorted((a, b) => a.notedAt - b.notedAt), newer }
}

function parseRecord(text: string): ReplicaRecord | 'newer' | 'damaged' {
  try {
    const json: unknown = JSON.parse(text)
    const header = z.object({ format: z.number().int() }).safeParse(json)
    if (header.success && header.data.format > recordFormat) return 'newer'
    return ReplicaRecord.parse(json)
  } catch {
    return 'damaged'
  }
}
