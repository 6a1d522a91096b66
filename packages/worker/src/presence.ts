// A node on the bus: commands served first, then the heart beats, since whoever hears it may ask at once.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { nodeEvents, type Incarnation, type NodeId, type NodeType, type Resources } from '@muster/protocol'
import type { Presence } from './bus-link.ts'
import { serveCommands } from './commands/serve-commands.ts'
import { startHeartbeat, type Activity } from './heartbeat.ts'
import type { Inventory } from './inventory.ts'
import type { WorkerMetrics } from './metrics.ts'

export type PresenceDeps = Readonly<{
  nodeType: NodeType
  incarnation: Incarnation
  inventory: Inventory
  activity: () => Activity
  resources: () => Resources
  heartbeatIntervalMs: () => number
  requestStop: (message: string) => void
  metrics: WorkerMetrics
  random: () => number
  clock: Clock
  log: Log
}>

const farewellMs = 2_000

export function createPresence(deps: PresenceDeps): (bus: Bus, nodeId: NodeId) => Presence {
  const { nodeType, incarnation, inventory, requestStop, metrics, log } = deps
  // One sequence for beats and events, so that a late beat can't be taken for one after the goodbye.
  let seq = 0
  const nextSeq = (): number => seq++
  return (bus, nodeId) => {
    const subscriptions = serveCommands(nodeType, { bus, nodeId, inventory, requestStop, log })
    const unlisten = countReconnects(bus, metrics)
    const heartbeat = startHeartbeat({ ...deps, bus, nodeId, nextSeq, intervalMs: deps.heartbeatIntervalMs, onSent: metrics.heartbeatSent })
    return {
      async stop(farewell) {
        unlisten()
        await heartbeat.stop()
        if (farewell && bus.isConnected()) {
          bus.publish(nodeEvents, { node: nodeId }, { type: 'leaving', incarnation, seq: nextSeq() })
          await bus.ping(farewellMs)
        }
        await Promise.all(subscriptions.map((subscription) => subscription.stop()))
      },
    }
  }
}

function countReconnects(bus: Bus, metrics: WorkerMetrics): () => void {
  let wasConnected = bus.isConnected()
  return bus.onConnection((connected) => {
    if (connected && wasConnected) metrics.busReconnected()
    wasConnected ||= connected
  })
}
