// A node on the bus: commands served first, then the heart beats, since whoever hears it may ask at once.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { nodeEvents, type Incarnation, type NodeId, type NodeType, type Resources } from '@muster/protocol'
import type { Presence } from './bus-link.ts'
import { serveCommands } from './commands/serve-commands.ts'
import { startHeartbeat } from './heartbeat.ts'
import type { WorkerMetrics } from './metrics.ts'
import type { Operations } from './operations/operations.ts'
import type { Replicas, RunningReplica } from './supervisor/replicas.ts'

export type PresenceDeps = Readonly<{
  nodeType: NodeType
  incarnation: Incarnation
  operations: Operations
  replicas: Replicas
  gatewayUrl: () => string
  resources: () => Resources
  heartbeatIntervalMs: () => number
  requestStop: (message: string) => void
  metrics: WorkerMetrics
  random: () => number
  clock: Clock
  log: Log
}>

const farewellMs = 2_000
const maxOpsInBeat = 4096
const maxReplicasInBeat = 4096

export function createPresence(deps: PresenceDeps): (bus: Bus, nodeId: NodeId) => Presence {
  const { nodeType, incarnation, operations, replicas, gatewayUrl, requestStop, metrics, log } = deps
  // One sequence for beats and events, so that a late beat can't be taken for one after the goodbye.
  let seq = 0
  const nextSeq = (): number => seq++
  return (bus, nodeId) => {
    const leaving = new AbortController()
    const context = { bus, nodeId, operations, replicas, gatewayUrl, requestStop, log, signal: leaving.signal }
    const subscriptions = serveCommands(nodeType, context)
    const voice = { bus, nodeId, incarnation, nextSeq }
    const silences = nodeType === 'agent' ? [] : [operations.attach(voice), replicas.attach(voice)]
    const unlisten = countReconnects(bus, metrics)
    const activity = () => ({
      inFlight: replicas.inFlight(),
      ops: operations.active().slice(0, maxOpsInBeat),
      ...(nodeType === 'agent' ? {} : { replicas: replicas.running().slice(0, maxReplicasInBeat).map(inBeat) }),
    })
    const heartbeat = startHeartbeat({
      ...deps,
      bus,
      nodeId,
      nextSeq,
      activity,
      intervalMs: deps.heartbeatIntervalMs,
      onSent: metrics.heartbeatSent,
    })
    return {
      async stop(farewell) {
        unlisten()
        await heartbeat.stop()
        // Who waits for the end of an operation gets an answer now, or these subscriptions would never stop.
        leaving.abort()
        for (const fallSilent of silences) fallSilent()
        if (farewell && bus.isConnected()) {
          bus.publish(nodeEvents, { node: nodeId }, { type: 'leaving', incarnation, seq: nextSeq() })
          await bus.ping(farewellMs)
        }
        await Promise.all(subscriptions.map((subscription) => subscription.stop()))
      },
    }
  }
}

const inBeat = ({ replicaId, state, inFlight }: RunningReplica) => ({ replica_id: replicaId, state, in_flight: inFlight })

function countReconnects(bus: Bus, metrics: WorkerMetrics): () => void {
  let wasConnected = bus.isConnected()
  return bus.onConnection((connected) => {
    if (connected && wasConnected) metrics.busReconnected()
    wasConnected ||= connected
  })
}
