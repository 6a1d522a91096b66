// A node on the bus: serves its commands, then publishes heartbeats, since a controller may send a command on the first one.
import type { Bus } from '@muster/bus'
import type { Clock } from '@muster/host'
import { nodeEvents, type Incarnation, type NodeId, type NodeType, type Resources } from '@muster/protocol'
import { busLeft, type CommandContext } from './commands/command.ts'
import { serveCommands } from './commands/serve-commands.ts'
import type { Presence } from './membership/bus-connection.ts'
import { startHeartbeat } from './membership/heartbeat.ts'
import type { WorkerMetrics } from './metrics.ts'
import type { RunningReplica } from './supervisor/replicas.ts'

export type PresenceDeps = Pick<CommandContext, 'work' | 'operations' | 'replicas' | 'gatewayUrl' | 'requestStop' | 'log'> &
  Readonly<{
    nodeType: NodeType
    incarnation: Incarnation
    monitor: { readonly resources: () => Resources }
    heartbeatIntervalMs: () => number
    metrics: WorkerMetrics
    random: () => number
    clock: Clock
  }>

const farewellMs = 2_000
const maxOpsInBeat = 4096
const maxReplicasInBeat = 4096

export function createPresence(deps: PresenceDeps): (bus: Bus, nodeId: NodeId) => Presence {
  const { nodeType, incarnation, work, operations, replicas, gatewayUrl, requestStop, metrics, log } = deps
  // One sequence for heartbeats and events, so that a late heartbeat is not taken for one after the goodbye.
  let seq = 0
  const nextSeq = (): number => seq++
  return (bus, nodeId) => {
    const leaving = new AbortController()
    const context = { bus, nodeId, work, operations, replicas, gatewayUrl, requestStop, isLegacyServed: true, log, signal: leaving.signal }
    const subscriptions = serveCommands(nodeType, context)
    const nodeBus = { bus, nodeId, incarnation, nextSeq }
    const detachAll = nodeType === 'agent' ? [] : [operations.attach(nodeBus), replicas.attach(nodeBus)]
    const unlisten = countReconnects(bus, metrics)
    const activity = () => ({
      inFlight: replicas.inFlight(),
      ops: operations.active().slice(0, maxOpsInBeat),
      ...(nodeType === 'agent' ? {} : { replicas: replicas.running().slice(0, maxReplicasInBeat).map(beatFields) }),
    })
    const heartbeat = startHeartbeat({
      ...deps,
      resources: deps.monitor.resources,
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
        // Callers that wait for the end of an operation get a reply now; otherwise these subscriptions would never stop.
        leaving.abort(busLeft)
        for (const detach of detachAll) detach()
        if (farewell && bus.isConnected()) {
          bus.publish(nodeEvents, { node: nodeId }, { type: 'leaving', incarnation, seq: nextSeq() })
          await bus.ping(farewellMs)
        }
        await Promise.all(subscriptions.map((subscription) => subscription.stop()))
      },
    }
  }
}

const beatFields = ({ replicaId, state, inFlight }: RunningReplica) => ({ replica_id: replicaId, state, in_flight: inFlight })

function countReconnects(bus: Bus, metrics: WorkerMetrics): () => void {
  let wasConnected = bus.isConnected()
  return bus.onConnection((connected) => {
    if (connected && wasConnected) metrics.busReconnected()
    wasConnected ||= connected
  })
}
