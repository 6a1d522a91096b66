// What a node says of its own accord: how operations ended, what became of replicas, what is installed since.
// Nobody acknowledges events, so each time the bus is there (again) the latest are said again: at
// once, and a little later, since those who listen may come back after us.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { nodeEvents, type BackendList, type Incarnation, type NodeEvent, type NodeId, type OpStatusReply } from '@muster/protocol'

/** The node's place on the bus while it has one. */
export type Voice = Readonly<{ bus: Bus; nodeId: NodeId; incarnation: Incarnation; nextSeq: () => number }>

export interface Announcer {
  /** Returns how to fall silent. */
  attach(voice: Voice): () => void
  voice(): Voice | null
  say(event: Said): void
  result(status: OpStatusReply): void
  inventory(): void
}

export type AnnouncerDeps = Readonly<{
  /** Said each time the bus is there. */
  recent: () => readonly Said[]
  /** Left out by who knows nothing of backends. */
  inventory?: () => Promise<BackendList>
  clock: Clock
  log: Log
}>

export type Said = NodeEvent extends infer E ? (E extends NodeEvent ? Omit<E, 'incarnation' | 'seq'> : never) : never

/** Longer than a client of the bus pauses between two tries to connect. */
const laterMs = 5_000

export function createAnnouncer({ recent, inventory, clock, log }: AnnouncerDeps): Announcer {
  let voice: Voice | null = null
  let isReading = false
  let isStale = false

  const say = (event: Said): void => {
    if (voice === null || !voice.bus.isConnected()) return
    try {
      const { bus, nodeId, incarnation, nextSeq } = voice
      bus.publish(nodeEvents, { node: nodeId }, { ...event, incarnation, seq: nextSeq() })
    } catch (error) {
      log.error('an event was not sent', { type: event.type, error })
    }
  }
  const sayInventory = async (read: () => Promise<BackendList>): Promise<void> => {
    // One reading at a time, so that an older one is never said after a newer.
    isReading = true
    while (isStale) {
      isStale = false
      say({ type: 'inventory', ...(await read()) })
    }
    isReading = false
  }
  const announcer: Announcer = {
    voice: () => voice,
    say,
    result: (status) => say({ type: 'op.result', ...status }),
    inventory() {
      isStale = true
      if (!isReading && inventory !== undefined) void sayInventory(inventory)
    },
    attach(attached) {
      voice = attached
      let later = new AbortController()
      const sayAgain = (): void => {
        for (const event of recent()) say(event)
        announcer.inventory()
      }
      const sayAgainTwice = (): void => {
        sayAgain()
        later.abort()
        later = new AbortController()
        clock.sleep(laterMs, later.signal).then(sayAgain, () => undefined)
      }
      const unlisten = attached.bus.onConnection((isConnected) => isConnected && sayAgainTwice())
      if (attached.bus.isConnected()) sayAgainTwice()
      return () => {
        unlisten()
        later.abort()
        if (voice === attached) voice = null
      }
    },
  }
  return announcer
}
