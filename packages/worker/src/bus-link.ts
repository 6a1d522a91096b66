// The node's place on the bus while it is a member: at most one connection, with its commands served
// and its heart beating. What it should be is set; it becomes that, one change after the other.
import type { Bus } from '@muster/bus'
import type { Log } from '@muster/host'
import type { NodeId, Session } from '@muster/protocol'

export type BusPlace = Readonly<{ nodeId: NodeId; bus: NonNullable<Session['bus']> }>

export type BusTarget = Readonly<{
  nodeId: NodeId
  url: string
  /** The newest; null when the URL needs none. Asked at each connection, since they expire and are renewed. */
  credentials: () => string | null
}>
export type ConnectBus = (target: BusTarget) => Promise<Bus>

/** What lives as long as one connection. */
export interface Presence {
  /** `farewell`: say goodbye first, for this process ends by its own will. */
  stop(farewell: boolean): Promise<void>
}

export type BusLinkDeps = Readonly<{
  connectBus: ConnectBus
  /** Begins to serve and to beat. */
  attach: (bus: Bus, nodeId: NodeId) => Presence
  log: Log
}>

export interface BusLink {
  /** Null: no member (any more). Renewed credentials alone change nothing until the next connection. */
  set(place: BusPlace | null): void
  isConnected(): boolean
  close(farewell: boolean): Promise<void>
}

type Held = Readonly<{ key: string; bus: Bus; presence: Presence }>

export function createBusLink({ connectBus, attach, log }: BusLinkDeps): BusLink {
  let wanted: BusPlace | null = null
  let held: Held | null = null
  let changes: Promise<void> = Promise.resolve()

  const drop = async (farewell: boolean): Promise<void> => {
    if (held === null) return
    const { bus, presence } = held
    held = null
    await presence.stop(farewell).catch((error: unknown) => log.warn('leaving the bus was not clean', { error }))
    await bus.close().catch((error: unknown) => log.warn('closing the bus was not clean', { error }))
  }
  const take = async ({ nodeId, bus: { url } }: BusPlace, key: string): Promise<void> => {
    const bus = await connectBus({ nodeId, url, credentials: () => wanted?.bus.credentials ?? null })
    try {
      held = { key, bus, presence: attach(bus, nodeId) }
    } catch (error) {
      await bus.close()
      throw error
    }
  }
  const settle = async (): Promise<void> => {
    const key = wanted === null ? null : keyOf(wanted)
    if (held?.key === key) return
    await drop(false)
    // Whatever is wrong with it (a URL that is none), the next session may bring a better one.
    if (wanted !== null && key !== null) await take(wanted, key).catch((error: unknown) => log.error('no way onto the bus', { error }))
  }
  return {
    set(place) {
      wanted = place
      changes = changes.then(settle)
    },
    isConnected: () => held?.bus.isConnected() ?? false,
    close(farewell) {
      wanted = null
      changes = changes.then(() => drop(farewell))
      return changes
    },
  }
}

/** Another URL, another node, or credentials where there were none: another connection. */
const keyOf = ({ nodeId, bus }: BusPlace): string => JSON.stringify([nodeId, bus.url, bus.credentials === null])
