// Publishes the events of a node: results of operations, changes of replicas, the inventory. Nobody acknowledges events, so
// each time the bus connects the latest are published again: at once, and once more for listeners that reconnect later.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { nodeEvents, type BackendList, type Incarnation, type NodeEvent, type NodeId, type OpStatusReply } from '@muster/protocol'

/** The bus, and the node that publishes on it. */
export type NodeBus = Readonly<{ bus: Bus; nodeId: NodeId; incarnation: Incarnation; nextSeq: () => number }>

export type OutgoingEvent = NodeEvent extends infer E ? (E extends NodeEvent ? Omit<E, 'incarnation' | 'seq'> : never) : never

export interface EventPublisher {
  /** Returns how to detach. */
  attach(nodeBus: NodeBus): () => void
  nodeBus(): NodeBus | null
  publish(event: OutgoingEvent): void
  publishResult(status: OpStatusReply): void
  publishInventory(): void
}

export type EventPublisherDeps = Readonly<{
  /** Published on every connection. */
  recent: () => readonly OutgoingEvent[]
  /** Absent: there is no inventory to publish. */
  inventory?: () => Promise<BackendList>
  clock: Clock
  log: Log
}>

/** Longer than a bus client waits between two attempts to connect. */
const repeatMs = 5_000

export function createEventPublisher({ recent, inventory, clock, log }: EventPublisherDeps): EventPublisher {
  let current: NodeBus | null = null
  let isReading = false
  let isStale = false

  const publish = (event: OutgoingEvent): void => {
    if (current === null || !current.bus.isConnected()) return
    try {
      const { bus, nodeId, incarnation, nextSeq } = current
      bus.publish(nodeEvents, { node: nodeId }, { ...event, incarnation, seq: nextSeq() })
    } catch (error) {
      log.error('cannot publish an event', { type: event.type, error })
    }
  }
  const readAndPublish = async (read: () => Promise<BackendList>): Promise<void> => {
    // One reading at a time, so that an older inventory never follows a newer one.
    isReading = true
    while (isStale) {
      isStale = false
      publish({ type: 'inventory', ...(await read()) })
    }
    isReading = false
  }
  const publisher: EventPublisher = {
    nodeBus: () => current,
    publish,
    publishResult: (status) => publish({ type: 'op.result', ...status }),
    publishInventory() {
      isStale = true
      if (!isReading && inventory !== undefined) void readAndPublish(inventory)
    },
    attach(nodeBus) {
      current = nodeBus
      let repeat = new AbortController()
      const publishRecent = (): void => {
        for (const event of recent()) publish(event)
        publisher.publishInventory()
      }
      const publishTwice = (): void => {
        publishRecent()
        repeat.abort()
        repeat = new AbortController()
        clock.sleep(repeatMs, repeat.signal).then(publishRecent, () => undefined)
      }
      const unlisten = nodeBus.bus.onConnection((isConnected) => isConnected && publishTwice())
      if (nodeBus.bus.isConnected()) publishTwice()
      return () => {
        unlisten()
        repeat.abort()
        if (current === nodeBus) current = null
      }
    },
  }
  return publisher
}
