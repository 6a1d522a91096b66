// The operations of one node on a bus, served as in a worker, with a record of its events.
import { createLocalHub, type Bus } from '@muster/bus'
import { silentLog, systemClock, type Clock, type Log, type Step } from '@muster/host'
import { Incarnation, nodeEvents, NodeId, OperationId, progress, type NodeEvent, type OpStatusReply, type Progress } from '@muster/protocol'
import { makeTempDir, waitFor } from '@muster/testkit'
import { busLeft } from '../src/commands/command.ts'
import { serveCommands } from '../src/commands/serve-commands.ts'
import type { Installer } from '../src/operations/installer.ts'
import { openOperations, type Operations, type OperationsDeps } from '../src/operations/operations.ts'
import { noBackends } from '../src/supervisor/run-replica.ts'
import { openReplicas, type Replicas } from '../src/supervisor/replicas.ts'
import { createWorkRegistry, type WorkRegistry } from '../src/work/work-registry.ts'

export const nodeId = NodeId.parse('n-1')
export const opId = (text: string): OperationId => OperationId.parse(text)
export const to = { node: nodeId }
export const gatewayUrl = 'http://127.0.0.1:1'
export const soon = { timeoutMs: 60_000 }

export type WorldOptions = Readonly<{
  installer: Installer
  files?: OperationsDeps['files']
  clock?: Clock
  log?: Log
  step?: Step
  path?: string
  /** False: commands without `async` are refused. */
  isLegacyServed?: boolean
  /** Real ones; otherwise no backend is installed and no process runs. */
  replicas?: Replicas
  /** Two connections to one bus; otherwise one within this process. */
  connect?: () => Promise<Bus>
}>

export interface OperationsWorld extends AsyncDisposable {
  readonly path: string
  readonly operations: Operations
  readonly work: WorkRegistry
  /** The controllers' connection to the bus. */
  readonly bus: Bus
  readonly events: NodeEvent[]
  readonly ticks: Progress[]
  interrupt(): void
  restore(): void
  results(): OpStatusReply[]
  /** The first, or the one after so many. */
  result(op: string, after?: number): Promise<OpStatusReply>
  /** Like a process that exits: running work is left. */
  stop(): Promise<void>
}

export async function startOperations(options: WorldOptions): Promise<OperationsWorld> {
  const directory = options.path === undefined ? await makeTempDir('operations') : null
  const path = options.path ?? `${directory?.path}/operations/journal`
  const { clock = systemClock, log = silentLog, installer, files, step } = options
  const hub = createLocalHub({ log: silentLog })
  const connect = options.connect ?? (async () => hub.connect())
  const [bus, own] = [await connect(), await connect()]
  const events: NodeEvent[] = []
  const ticks: Progress[] = []
  bus.subscribe(nodeEvents, { node: '*' }, (event) => void events.push(event))
  bus.subscribe(progress, { node: '*', op: '*' }, (tick) => void ticks.push(tick))
  await bus.ping(5000)
  const work = createWorkRegistry({ clock })
  const operations = await openOperations({
    ...{ path, installer, work, clock, log },
    ...(files === undefined ? {} : { files }),
    ...(step === undefined ? {} : { step }),
  })
  const root = `${path}-replicas`
  const replicas =
    options.replicas ??
    (await openReplicas({
      dataDir: { root, path: (name) => `${root}/${name}` },
      work,
      backends: noBackends,
      models: { stage: () => Promise.reject(new Error('there are no model files')), remove: async () => undefined },
      drivers: {},
      env: {},
      clock,
      log,
    }))
  const leaving = new AbortController()
  let seq = 0
  const served = serveCommands('backend', {
    ...{ bus: own, nodeId, work, operations, replicas, log, signal: leaving.signal, isLegacyServed: options.isLegacyServed ?? true },
    gatewayUrl: () => gatewayUrl,
    requestStop: () => undefined,
  })
  const detach = operations.attach({ bus: own, nodeId, incarnation: Incarnation.parse('i-1'), nextSeq: () => seq++ })
  await own.ping(5000)
  const results = (): OpStatusReply[] => events.filter((event) => event.type === 'op.result')
  let isStopped = false
  const stop = async (): Promise<void> => {
    if (isStopped) return
    isStopped = true
    leaving.abort(busLeft)
    detach()
    await Promise.all(served.map((subscription) => subscription.stop()))
    await operations.stop()
    await own.close()
  }
  return {
    path,
    operations,
    work,
    bus,
    events,
    ticks,
    interrupt: hub.interrupt,
    restore: hub.restore,
    results,
    result: (op, after = 0) => waitFor(() => results().filter(({ op_id }) => op_id === op)[after], { what: `the result of ${op}` }),
    stop,
    async [Symbol.asyncDispose]() {
      await stop()
      await bus.close()
      await directory?.remove()
    },
  }
}
