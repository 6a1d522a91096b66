// The node's sign of life on the bus: at once when the bus is there (again), then at its interval.
import type { Bus } from '@muster/bus'
import { createWakeTimer, version, type Clock, type Log } from '@muster/host'
import { heartbeat, type Heartbeat, type Incarnation, type NodeId, type OperationId, type Resources } from '@muster/protocol'

export type Activity = Readonly<{
  inFlight: number
  ops: readonly OperationId[]
  /** Left out by nodes that can have none. */
  replicas?: NonNullable<Heartbeat['replicas']>
}>

export type HeartbeatDeps = Readonly<{
  bus: Bus
  nodeId: NodeId
  incarnation: Incarnation
  nextSeq: () => number
  /** Read before each beat: an administrator may change it. */
  intervalMs: () => number
  resources: () => Resources
  activity: () => Activity
  random: () => number
  onSent: () => void
  clock: Clock
  log: Log
}>

export interface Beating {
  stop(): Promise<void>
}

/** Nothing here waits for anything but time: what a beat reports was read before, by others. */
export function startHeartbeat(deps: HeartbeatDeps): Beating {
  const { bus, clock, log, intervalMs, random } = deps
  const stopping = new AbortController()
  const wakeable = createWakeTimer(clock)
  const unlisten = bus.onConnection((connected) => connected && wakeable.wake())

  const beat = (): void => {
    if (!bus.isConnected()) return
    try {
      const { inFlight, ops, replicas } = deps.activity()
      const { nodeId, incarnation } = deps
      const beatNow = {
        node_id: nodeId,
        incarnation,
        seq: deps.nextSeq(),
        version,
        resources: deps.resources(),
        in_flight: inFlight,
        ops: [...ops],
        ...(replicas === undefined ? {} : { replicas }),
      }
      bus.publish(heartbeat, { node: nodeId }, beatNow)
      deps.onSent()
    } catch (error) {
      log.error('heartbeat not sent', { error })
    }
  }

  const loop = async (): Promise<void> => {
    let isFirst = true
    while (!stopping.signal.aborted) {
      beat()
      // After a beat that an event set off, the next one comes at a random moment of the interval:
      // a bus that comes back to 2,000 nodes would otherwise hear all of them in step for ever.
      const pauseMs: number = isFirst ? random() * intervalMs() : intervalMs()
      isFirst = await wakeable.pause(pauseMs, stopping.signal).catch(() => false)
    }
  }
  const ended = loop()
  return {
    async stop() {
      unlisten()
      stopping.abort()
      await ended
    },
  }
}
