// The driver for LocalAI's backends, which speak gRPC: existing images run unchanged. The gateway speaks OpenAI for them. The
// gRPC library takes a third of a worker's start, so it is loaded with the first backend that needs it.
import { availableParallelism } from 'node:os'
import type { Clock } from '@muster/host'
import { addressKindOf, fillCommand, modelEnv, type BackendConnection, type Driver, type ReplicaSpec } from '../driver.ts'

/** The command of an image without backend.json. */
const runSh = ['./run.sh', '--addr', '{addr}']

export type LocalAiDeps = Readonly<{
  clock: Clock
  threads?: () => number
  /** The memory of the smallest GPU; null: none, or unknown. */
  smallestGpuBytes?: () => number | null
}>

export function createLocalAiGrpcDriver({ clock, threads = countCores, smallestGpuBytes = () => null }: LocalAiDeps): Driver {
  const calls = () => import('./calls.ts')
  const machine = () => ({ threads: threads(), smallestGpuBytes: smallestGpuBytes() })
  return {
    name: 'localai-grpc',
    addressKind: (spec) => addressKindOf(commandOf(spec)),
    launch: (spec, address) => ({
      argv: fillCommand(commandOf(spec), spec, address),
      env: { ...modelEnv(spec), MUSTER_NODE: process.execPath },
    }),
    async waitUntilReady(spec, address, watch) {
      const { loadModel } = await calls()
      await loadModel({ spec, address, watch, machine: machine(), clock })
    },
    async recognizes(spec, address, signal) {
      const { hasModel } = await calls()
      return await hasModel(spec, address, signal)
    },
    connect: (spec, address) => connectLater(async () => (await calls()).createConnection({ clock, machine: machine() }, spec, address)),
  }
}

/** Every other hyperthread is a core. More threads than cores make an engine much slower. */
const countCores = (): number => Math.max(1, Math.floor(availableParallelism() / 2))

const commandOf = ({ description }: ReplicaSpec): readonly string[] => description?.command ?? runSh

/** Connects with the first request. */
function connectLater(connect: () => Promise<BackendConnection>): BackendConnection {
  let connection: Promise<BackendConnection> | null = null
  return {
    async handle(request, response, about) {
      connection ??= connect()
      await (await connection).handle(request, response, about)
    },
    async close() {
      if (connection !== null) await (await connection).close()
    },
  }
}
