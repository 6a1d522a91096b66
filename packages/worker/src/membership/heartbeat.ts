// Publishes the heartbeats of a node: at once when the bus connects, then at the interval.
import type { Bus } from '@muster/bus'
import { createLoop, version, type Clock, type Log } from '@muster/host'
import { heartbeat, type Heartbeat, type Incarnation, type NodeId, type OperationId, type Resources } from '@muster/protocol'

export type Activity = Readonly<{
  inFlight: number
  ops: readonly OperationId[]
  /** Absent on agent nodes. */
  replicas?: NonNullable<Heartbeat['replicas']>
}>

export type HeartbeatDeps = Readonly<{
  bus: Bus
  nodeId: NodeId
  incarnation: Incarnation
  nextSeq: () => number
  /** Read before each heartbeat: an administrator may change it. */
  intervalMs: () => number
  resources: () => Resources
  activity: () => Activity
  random: () => number
  onSent: () => void
  clock: Clock
  log: Log
}>

/** Nothing here waits for I/O: the reported values were read before, in the background. */
export function startHeartbeat(deps: HeartbeatDeps): { stop(): Promise<void> } {
  const { bus, clock, log, intervalMs, random } = deps
  const stopping = new AbortController()
  const loop = createLoop({ what: 'heartbeat loop failed; retrying', clock, log })
  const unlisten = bus.onConnection((connected) => connected && loop.wake())

  const beat = (): void => {
    if (!bus.isConnected()) return
    const { inFlight, ops, replicas } = deps.activity()
    const { nodeId, incarnation } = deps
    const body = {
      node_id: nodeId,
      incarnation,
      seq: deps.nextSeq(),
      version,
      resources: deps.resources(),
      in_flight: inFlight,
      ops: [...ops],
      ...(replicas === undefined ? {} : { replicas }),
    }
    bus.publish(heartbeat, { node: nodeId }, body)
    deps.onSent()
  }

  const ended = loop.run(async (_signal, isDue) => {
    try {
      beat()
    } catch (error) {
      log.error('cannot publish a heartbeat', { error })
    }
    // After a connection the next heartbeat comes at a random moment of the interval: otherwise 2,000 nodes that reconnect
    // together would stay in step.
    return isDue ? intervalMs() : random() * intervalMs()
  }, stopping.signal)
  return {
    async stop() {
      unlisten()
      stopping.abort()
      await ended
    },
  }
}
