// The metrics of a worker. One registry per worker: a process may have several workers.
import { version } from '@muster/host'
import { ReplicaState, type Resources } from '@muster/protocol'
import { Counter, Gauge, Registry } from 'prom-client'

export type PollOutcome = 'ok' | 'refused' | 'unreachable'

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>

export type MetricSources = Readonly<{
  resources: () => Resources
  isBusConnected: () => boolean
  replicas?: () => readonly { readonly state: ReplicaState }[]
}>

const figures = ['cpus', 'total_ram', 'available_ram', 'total_vram', 'available_vram', 'total_disk', 'available_disk'] as const

export function createWorkerMetrics({ resources, isBusConnected, replicas = () => [] }: MetricSources) {
  const registry = new Registry()
  const counter = (name: string, help: string, labelNames: string[] = []) => {
    const made = new Counter({ name: `muster_worker_${name}`, help, labelNames, registers: [] })
    registry.registerMetric(made)
    return made
  }
  const gauge = (name: string, collect: (gauge: Gauge) => void, { help, labelNames }: { help: string; labelNames: string[] }): void =>
    registry.registerMetric(
      new Gauge({
        name: `muster_worker_${name}`,
        help,
        labelNames,
        registers: [],
        collect() {
          collect(this)
        },
      }),
    )
  const heartbeats = counter('heartbeats_total', 'Heartbeats sent over the bus')
  const reconnects = counter('bus_reconnects_total', 'Reconnects to the bus')
  const polls = counter('session_polls_total', 'Session polls by outcome', ['outcome'])
  const starts = counter('replica_starts_total', 'Model processes started')
  const exits = counter('replica_exits_total', 'Model processes that ended, by whether a command ended them', ['expected'])
  const showReplicas = (shown: Gauge): void => {
    const now = replicas()
    for (const state of ReplicaState.exclude(['exited']).options) shown.set({ state }, now.filter((each) => each.state === state).length)
  }
  gauge('replicas', showReplicas, { help: 'Replicas of models on this node, by state', labelNames: ['state'] })
  gauge('info', (info) => info.set({ version }, 1), { help: 'The version', labelNames: ['version'] })
  gauge('bus_connected', (connected) => connected.set(isBusConnected() ? 1 : 0), { help: '1 while the bus is connected', labelNames: [] })
  for (const figure of figures) {
    const show = (shown: Gauge): void => {
      const { [figure]: value, gpu_vendor } = resources()
      shown.reset()
      if (value !== null) shown.set({ gpu_vendor: figure.endsWith('vram') ? (gpu_vendor ?? '') : '' }, value)
    }
    // With a label, since a gauge without one cannot be absent: it shows 0 for an unknown value.
    const help = `Resources of this machine: ${figure.replace('_', ' ')}; absent while unknown`
    gauge(figure === 'cpus' ? figure : `${figure}_bytes`, show, { help, labelNames: ['gpu_vendor'] })
  }
  return {
    heartbeatSent: () => heartbeats.inc(),
    busReconnected: () => reconnects.inc(),
    polled: (outcome: PollOutcome) => polls.inc({ outcome }),
    replicaStarted: () => starts.inc(),
    replicaExited: ({ isExpected }: { isExpected: boolean }) => exits.inc({ expected: String(isExpected) }),
    render: () => registry.metrics(),
    contentType: registry.contentType,
  }
}
