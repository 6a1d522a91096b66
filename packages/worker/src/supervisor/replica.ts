// One replica while this worker has it: its record and its stage, its process, and who is being served. What moves it is
// in load-replica.ts and end-replica.ts.
import type { Clock, Log } from '@muster/host'
import type { Failure, ReplicaId } from '@muster/protocol'
import type { BackendAddress, BackendConnection, Driver } from '../drivers/driver.ts'
import type { ModelFiles } from '../models/model-files.ts'
import type { Step } from '../operations/installer.ts'
import type { ProgressReporter } from '../operations/progress-reporter.ts'
import type { Addresses } from './addresses.ts'
import type { InstalledBackends } from './installed-backends.ts'
import type { LogFiles } from './log-files.ts'
import { step, type ReplicaEvent, type Stage } from './machine.ts'
import type { ReplicaRecord, ReplicaRecords } from './replica-record.ts'
import type { Admission } from './replicas.ts'
import type { LeadProcess } from './spawn-process.ts'

export type Drivers = Readonly<Partial<Record<Driver['name'], Driver>>>

export type Pace = Readonly<{
  /** A process that is not ready, and silent for so long, is ended. */
  silenceMs: number
  /** Between SIGTERM and SIGKILL. */
  graceMs: number
  /** How long requests may take to end before their process is. */
  drainMs: number
  /** The same for a worker that stops. */
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
  env: Readonly<Record<string, string | undefined>>
  pace: Pace
  /** After it was noted. */
  onMoved: (replica: Replica, before: Stage) => void
  clock: Clock
  log: Log
  step: Step
}>

export interface Replica {
  readonly id: ReplicaId
  record: ReplicaRecord
  readonly reporter: ProgressReporter
  /** Rejects when it could not be noted, and then it is none. */
  noted: Promise<void>
  process: LeadProcess | null
  address: BackendAddress | null
  connection: BackendConnection | null
  /** Whatever has to stay as it is while a process runs. */
  readonly held: DisposableStack
  /** Aborted to call off its load. */
  readonly calling: AbortController
  isLoading: boolean
  calledOff: Failure | null
  /** Its worker stops: a load is left to the next start. */
  isLeaving: boolean
  /** Ends waiting for requests. */
  readonly hurry: AbortController
  stopping: Promise<void> | null
  inFlight: number
  readonly onIdle: Set<() => void>
  /** Resolves when it is ready; rejects when it comes to an end before. */
  readonly came: PromiseWithResolvers<void>
  /** No process of it is left. */
  readonly gone: PromiseWithResolvers<void>
  saving: Promise<void>
}

export function createReplica(record: ReplicaRecord, reporter: ProgressReporter): Replica {
  const came = Promise.withResolvers<void>()
  // Not everybody waits for it.
  came.promise.catch(() => undefined)
  const gone = Promise.withResolvers<void>()
  if (record.stage.state === 'gone') gone.resolve()
  return {
    id: record.order.replica_id,
    record,
    reporter,
    noted: Promise.resolve(),
    process: null,
    address: null,
    connection: null,
    held: new DisposableStack(),
    calling: new AbortController(),
    isLoading: false,
    calledOff: null,
    isLeaving: false,
    hurry: new AbortController(),
    stopping: null,
    inFlight: 0,
    onIdle: new Set(),
    came,
    gone,
    saving: Promise.resolve(),
  }
}

export const stateOf = (replica: Replica): Stage['state'] => replica.record.stage.state
export const isGone = (replica: Replica): boolean => stateOf(replica) === 'gone'

/** False: not legal from where it is. Rejects only where a process would otherwise be without a record. */
export async function move(replica: Replica, event: ReplicaEvent, deps: ReplicaDeps): Promise<boolean> {
  const before = replica.record.stage
  const stage = step(before, event)
  if (stage === null) {
    deps.log.debug('not a step of a replica', { replica_id: replica.id, state: before.state, event: event.type })
    return false
  }
  replica.record = { ...replica.record, stage, ...(event.type === 'spawned' ? { digest: event.run.digest } : {}) }
  await save(replica, deps).catch((error: unknown) => {
    if (event.type === 'spawned') throw error
    deps.log.error('what became of a replica was not noted', { replica_id: replica.id, state: stage.state, error })
  })
  deps.onMoved(replica, before)
  return true
}

/** One write after the other, each with the newest there is. */
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
      if (replica.inFlight === 0) for (const tell of replica.onIdle) tell()
    },
  }
}

/** Until no request is under way, the time is over, or somebody is in a hurry. */
export async function untilIdle(replica: Replica, ms: number, { clock }: Pick<ReplicaDeps, 'clock'>): Promise<void> {
  if (replica.inFlight === 0) return
  const idle = Promise.withResolvers<void>()
  const over = new AbortController()
  replica.onIdle.add(idle.resolve)
  const tooLong = clock.sleep(ms, AbortSignal.any([over.signal, replica.hurry.signal])).catch(() => undefined)
  try {
    await Promise.race([idle.promise, tooLong, replica.gone.promise])
  } finally {
    over.abort()
    replica.onIdle.delete(idle.resolve)
  }
}
