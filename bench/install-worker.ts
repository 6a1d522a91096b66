// The program that bench/install.ts measures: one whole worker (membership, heartbeats, journal, store) in a process of
// its own, with a controller that only lets it in. It installs what it is told to over its bus, and says what that took.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { readFileSync } from 'node:fs'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { backendInstall, backendList, backendUpgrade, BackendName } from '@muster/protocol'
import { startWorker, workerSettings } from '@muster/worker'
import { createFakeCluster, startFakeController } from '../packages/worker/test/fake-controller.ts'
// Not by the testkit's name, which would load all of it and be counted as the worker's memory.
import { waitFor } from '../packages/testkit/src/wait-for.ts'
import { newHub } from '../packages/worker/test/start-test-worker.ts'
import { costOf } from './process-cost.ts'

export interface InstallCommand {
  readonly kind: 'install' | 'upgrade'
  readonly uri: string
}

export interface InstallCost {
  readonly seconds: number
  readonly cpuSeconds: number
  /** CPU time of the process since its start, its threads included. */
  readonly peakBytes: number
  /** Resident memory before the command came. */
  readonly idleBytes: number
  /** By the clock, which also counts while other processes have the processors. */
  readonly longestBlockMs: number
  /** By the processor time of the main thread from one turn of its loop to the next. */
  readonly longestBusyMs: number
  /** Seconds from the command to each of its steps; of a step that comes several times, to the last. */
  readonly steps: Readonly<Record<string, number>>
}

const [directory = '', allowed = ''] = process.argv.slice(2)
const cluster = createFakeCluster()
cluster.settings = { ...cluster.settings, heartbeat_interval_ms: 5_000 }
const controller = await startFakeController(cluster)
const hub = newHub()
const bus = hub.connect()
let began = 0
let steps: Record<string, number> = {}
const since = (): number => (performance.now() - began) / 1_000

const flags = { join: controller.url, token: 'right', name: 'bench', 'gateway-listen': '127.0.0.1:0', 'allow-source': allowed }
const dataDir = await openDataDir({ path: directory, role: 'worker' })
const worker = await startWorker({
  settings: resolveSettings(workerSettings, { flags, env: {} }),
  dataDir,
  clock: systemClock,
  log: silentLog,
  connectBus: async () => hub.connect(),
  step: (name) => void (steps[name] = since()),
})
const node = await waitFor(() => worker.nodeId(), { what: 'a node id' })
const row = await waitFor(() => cluster.nodes.get(node), { what: 'the row of the node' })
row.approved = true
cluster.changed()
await waitFor(() => bus.request(backendList, { node }, {}, { timeoutMs: 10_000 }), { what: 'a member' })

async function run({ kind, uri }: InstallCommand): Promise<InstallCost> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const before = costOf(process.pid)
  const request = { backend: BackendName.parse('bench'), uri }
  const patience = { timeoutMs: 300_000 }
  const busy = watchBusy()
  delay.enable()
  began = performance.now()
  steps = {}
  const reply =
    kind === 'install'
      ? await bus.request(backendInstall, { node }, request, patience)
      : await bus.request(backendUpgrade, { node }, request, patience)
  const seconds = since()
  delay.disable()
  if (!('success' in reply) || !reply.success) throw new Error(`not installed: ${JSON.stringify(reply)}`)
  const peak = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]
  return {
    seconds,
    cpuSeconds: costOf(process.pid).cpuSeconds - before.cpuSeconds,
    idleBytes: before.rssBytes,
    peakBytes: Number(peak) * 1024,
    // From a histogram of timers that are due every millisecond.
    longestBlockMs: delay.max / 1e6 - 1,
    longestBusyMs: busy.stop(),
    steps,
  }
}

function watchBusy(): { stop(): number } {
  const now = (): number => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1_000
  }
  let [last, longest] = [now(), 0]
  const look = (): void => {
    const at = now()
    longest = Math.max(longest, at - last)
    last = at
  }
  const timer = setInterval(look, 1)
  return {
    stop: () => {
      clearInterval(timer)
      look()
      return longest
    },
  }
}

process.on('message', (command: InstallCommand) => void run(command).then((cost) => process.send?.(cost)))
process.on('disconnect', () => void worker.stop().then(() => process.exit()))
process.send?.('ready')
