// What the supervisor and the gateway need of an engine's protocol. One driver per protocol; they know HTTP and gRPC, and
// nothing of processes, replicas or the bus.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Digest, BackendName, ModelConfig, ModelName, ReplicaId } from '@muster/protocol'
import type { BackendDescription } from '../storage/unpack/artifact.ts'

/** Where a process listens: on this machine only. */
export type BackendAddress = Readonly<{ kind: 'tcp'; host: '127.0.0.1'; port: number } | { kind: 'unix'; path: string }>

/** All that is fixed about a replica before it starts. */
export type ReplicaSpec = Readonly<{
  replicaId: ReplicaId
  model: ModelName
  revision: string
  backend: BackendName
  /** The tree it runs from. */
  backendDigest: Digest
  /** The root of that tree; also its working directory. */
  directory: string
  /** Null for a LocalAI backend, which has only its `run.sh`. */
  description: BackendDescription | null
  config: ModelConfig
  /** Where the model's files are, and of these the one that `parameters.model` names. */
  modelDirectory: string
  modelPath: string | null
}>

/** The first is a path inside the tree, or Node's own. Never a shell. */
export type Launch = Readonly<{ argv: readonly [string, ...string[]]; env: Readonly<Record<string, string>> }>

export type Coming = Readonly<{
  /** Aborted when the process ended, was stopped, or gave no sign for too long. */
  signal: AbortSignal
  /** Something moved: it is not dead. */
  onSign: () => void
}>

export interface Driver {
  readonly name: 'openai-http' | 'localai-grpc'
  /** Which kinds of address its processes can be given; the first is preferred. */
  addressKind(spec: ReplicaSpec): BackendAddress['kind']
  /** Pure. */
  launch(spec: ReplicaSpec, address: BackendAddress): Launch
  /** Until the process answers for this model and no other, loading it where the protocol has a call for that. Throws FleetError with the cause. */
  becomeReady(spec: ReplicaSpec, address: BackendAddress, coming: Coming): Promise<void>
  /** Of a process that was found again: does it answer there, for this model? */
  recognises(spec: ReplicaSpec, address: BackendAddress, signal: AbortSignal): Promise<boolean>
  /** How requests reach it. Cheap: nothing is sent before the first request. */
  connect(spec: ReplicaSpec, address: BackendAddress): BackendConnection
}

export interface BackendConnection {
  /**
   * Answers one request: streams both ways, minds back-pressure, ends what the backend does when the caller goes away.
   * `path` is what follows the replica in the gateway's URL (`/v1/chat/completions`). `headers` go on the answer.
   * Before anything was answered, what fails is thrown (FleetError `unavailable`: nothing was begun); after that the
   * answer is cut, so that nobody takes it for whole.
   */
  handle(request: IncomingMessage, response: ServerResponse, about: { path: string; headers: Record<string, string> }): Promise<void>
  close(): Promise<void>
}
