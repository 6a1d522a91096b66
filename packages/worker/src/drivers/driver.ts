// The interface of a driver: one per protocol that engines speak. Drivers know HTTP and gRPC, and neither processes nor the bus.
// All drivers launch a backend in the same way: `backend.json` with its placeholders filled in, never a shell.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isAbsolute, join, normalize } from 'node:path'
import { errorMessage } from '@muster/host'
import { FleetError, unreachable, type BackendName, type ModelConfig, type ModelName, type ReplicaId } from '@muster/protocol'
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
  /** Called with each question, and again when the process did not answer it well. */
  onPoll?: (poll: ReadinessPoll) => void
  /** A line for the replica's log. */
  onNote?: (line: string) => void
}>

/** `what`: the question. `last`: what came of it, as the end of "at last …". */
export type ReadinessPoll = Readonly<{ what: string; times: number; last: string }>

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

/** The form that a backend gets on its command line. */
export function showAddress(address: BackendAddress): string {
  switch (address.kind) {
    case 'tcp':
      return `${address.host}:${address.port}`
    case 'unix':
      return `unix:${address.path}`
    default:
      return unreachable(address)
  }
}

/** A unix socket for a command with `{socket}`; otherwise a loopback port. */
export const addressKindOf = (command: readonly string[]): BackendAddress['kind'] =>
  command.some((part) => part.includes('{socket}')) ? 'unix' : 'tcp'

export function fillCommand(command: readonly string[], spec: ReplicaSpec, address: BackendAddress): Launch['argv'] {
  const [program = '', ...args] = command
  const values: Record<string, string> = {
    '{node}': process.execPath,
    '{addr}': showAddress(address),
    '{socket}': address.kind === 'unix' ? address.path : showAddress(address),
  }
  const fill = (text: string): string => text.replaceAll(/\{(?:node|addr|socket)\}/g, (name) => values[name] ?? name)
  return [program === '{node}' ? process.execPath : insideTree(spec, program), ...args.map(fill)]
}

function insideTree({ backend, directory }: ReplicaSpec, program: string): string {
  const path = normalize(program)
  if (isAbsolute(path) || path === '..' || path.startsWith('../') || path === '.') {
    throw new FleetError({
      code: 'invalid',
      retry: 'never',
      message: `the backend ${backend} names a program outside of its files: ${program}`,
    })
  }
  return join(directory, path)
}

/** The variables that describe the model; `backend.json` cannot override them. */
export function modelEnv(spec: ReplicaSpec): Record<string, string> {
  const { config } = spec
  return {
    ...spec.description?.env,
    MUSTER_REPLICA_ID: spec.replicaId,
    MUSTER_MODEL_NAME: spec.model,
    MUSTER_MODEL_OPTIONS: JSON.stringify(config.options),
    MUSTER_MODEL_PARAMETERS: JSON.stringify(config.parameters),
    ...(spec.modelPath === null ? {} : { MUSTER_MODEL_PATH: spec.modelPath }),
    // -1, the trained length, is left to the backend.
    ...((config.context_size ?? -1) === -1 ? {} : { MUSTER_CONTEXT_SIZE: String(config.context_size) }),
  }
}

/** For a process that is gone, or is not the one of this replica: the request goes to another replica. */
export function unreachableProcess({ replicaId }: Pick<ReplicaSpec, 'replicaId'>, error: unknown): FleetError {
  const reason = errorMessage(error)
  return new FleetError(
    { code: 'unavailable', retry: 'backoff', message: `the process of replica ${replicaId} gave no answer: ${reason}`.slice(0, 2000) },
    { cause: error },
  )
}
