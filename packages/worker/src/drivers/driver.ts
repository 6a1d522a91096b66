// The interface of a driver: one per protocol that engines speak. Drivers know HTTP and gRPC, and neither processes nor the bus.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BackendName, ModelConfig, ModelName, ReplicaId } from '@muster/protocol'
import type { BackendDescription } from '../storage/unpack/tree-manifest.ts'

/** The address that a process listens on: this machine only. */
export type BackendAddress = Readonly<{ kind: 'tcp'; host: '127.0.0.1'; port: number } | { kind: 'unix'; path: string }>

/** Everything that is fixed before a replica starts. */
export type ReplicaSpec = Readonly<{
  replicaId: ReplicaId
  model: ModelName
  backend: BackendName
  /** The root of the tree it runs from; also its working directory. */
  directory: string
  /** Null for a LocalAI backend, which has only its `run.sh`. */
  description: BackendDescription | null
  config: ModelConfig
  /** The directory of the model's files, and the file that `parameters.model` names. */
  modelDirectory: string
  modelPath: string | null
}>

/** The first is a path inside the tree, or Node's own. Never a shell. */
export type Launch = Readonly<{ argv: readonly [string, ...string[]]; env: Readonly<Record<string, string>> }>

export type ReadinessWatch = Readonly<{
  /** Aborts when the process ends, is stopped, or is silent for too long. */
  signal: AbortSignal
  /** Called on every sign of life. */
  onSign: () => void
}>

export interface Driver {
  readonly name: 'openai-http' | 'localai-grpc'
  /** The kind of address that its process takes. */
  addressKind(spec: ReplicaSpec): BackendAddress['kind']
  /** Pure. */
  launch(spec: ReplicaSpec, address: BackendAddress): Launch
  /** Resolves when the process answers for this model; loads the model where the protocol has a call for that. Throws FleetError. */
  waitUntilReady(spec: ReplicaSpec, address: BackendAddress, watch: ReadinessWatch): Promise<void>
  /** For a process of an earlier run: true when it answers for this model. */
  recognizes(spec: ReplicaSpec, address: BackendAddress, signal: AbortSignal): Promise<boolean>
  /** Cheap: nothing is sent before the first request. */
  connect(spec: ReplicaSpec, address: BackendAddress): BackendConnection
}

export interface BackendConnection {
  /**
   * Serves one request: streams both ways with back-pressure, and aborts the backend's work when the caller disconnects.
   * `path` is the part after the replica in the gateway's URL (`/v1/chat/completions`). `headers` are added to the response.
   * A failure before the response begins is thrown (FleetError `unavailable`: the work was not begun); after that the
   * response is cut, so that no caller takes it for complete.
   */
  handle(request: IncomingMessage, response: ServerResponse, about: { path: string; headers: Record<string, string> }): Promise<void>
  close(): Promise<void>
}
