// The replicas of a worker, as commands, gateway, heartbeat and operations see them.
import type { Readable } from 'node:stream'
import type { BackendName, Failure, LoadModel, ModelName, OperationId, OpStatusReply, ReplicaId, ReplicaState } from '@muster/protocol'
import type { BackendConnection } from '../drivers/driver.ts'
import type { Voice } from '../operations/announcer.ts'
import type { Relisted } from './relist.ts'

export type Accepted = Readonly<{ accepted: true } | { accepted: false; failure: Failure }>

export type RunningReplica = Readonly<{
  replicaId: ReplicaId
  model: ModelName
  revision: string
  backend: BackendName
  state: ReplicaState
  inFlight: number
}>

/** A replica that may be asked, for as long as one request takes. */
export interface Admission extends Disposable {
  readonly connection: BackendConnection
  /** Requests that are with its replica now, this one among them. */
  inFlight(): number
}

/** As controllers that know no `model.load` name one. */
export type NamedReplica = Readonly<{ backend: BackendName; model: ModelName; slot: number }>

export type LogQuestion = Readonly<{
  /** Null: of every model, of every replica. */
  model: ModelName | null
  replicaId: ReplicaId | null
  follow: boolean
  /** Aborted when nobody reads any more. */
  signal: AbortSignal
}>

export interface Replicas {
  /** Resolves when it is noted durably, or refused. The same command again joins what is there. */
  load(order: LoadModel): Promise<Accepted>
  /** Drains (unless forced) and ends the exact process; accepted once noted. What is not here is done. */
  unload(replicaId: ReplicaId, how: { force: boolean }): Promise<Accepted>
  /** The replica that runs under this name, alive and checked; null: none does. */
  find(named: NamedReplica): Promise<ReplicaId | null>
  /** The same, or a new one; resolves when it is ready. Throws FleetError. */
  findOrStart(named: NamedReplica): Promise<ReplicaId>
  /** Every process of this backend, or of all, or those that run from another version than the one in use; resolves when they are gone. */
  stopBackend(backend: BackendName | null, how: { force: boolean; only?: 'outdated' }): Promise<void>
  /** What runs from this version says from now on that it is listed so. */
  relist(version: Relisted): Promise<void>
  /** Ends its replicas and removes its files; resolves when both are gone. */
  removeModel(model: ModelName): Promise<void>
  running(): readonly RunningReplica[]
  /** Null: no load goes by this id. */
  status(opId: OperationId): OpStatusReply | null
  cancel(opId: OperationId): Promise<OpStatusReply | null>
  /** For the gateway: counts as in flight until it is disposed of. */
  admit(replicaId: ReplicaId): Admission | 'gone' | 'draining'
  inFlight(): number
  /** What processes wrote. */
  openLog(question: LogQuestion): Readable
  attach(voice: Voice): () => void
  /** The node was removed from its cluster: its processes end, and nothing is remembered of them. */
  forget(): Promise<void>
  /** Ends every process: a worker that stops leaves nothing behind. */
  stop(): Promise<void>
}
