// The connection of a node to the bus while it is a member: at most one, with its commands served and heartbeats published.
// `set` states the desired connection; changes are applied one after the other.
import { type Bus, connectNats, type NatsTls, nodeInboxPrefix } from '@muster/bus'
import type { Clock, Log, NodeKey } from '@muster/host'
import { FleetError, type NodeId, type Session } from '@muster/protocol'

export type BusMembership = Readonly<{ nodeId: NodeId; bus: NonNullable<Session['bus']> }>

export type BusTarget = Readonly<{
  nodeId: NodeId
  url: string
  /** Certificates (PEM) of the session that the servers are verified with; null: none. */
  ca: string | null
  /** The latest; null when the URL needs none. Read at each connection, since they expire and are renewed. */
  credentials: () => string | null
}>
export type ConnectBus = (target: BusTarget) => Promise<Bus>

/** Everything that lives as long as one connection. */
export interface Presence {
  /** `farewell`: publish a goodbye first, because this process stops on purpose. */
  stop(farewell: boolean): Promise<void>
}

export type BusConnectionDeps = Readonly<{
  connectBus: ConnectBus
  /** Serves commands and publishes heartbeats. */
  attach: (bus: Bus, nodeId: NodeId) => Presence
  log: Log
}>

export interface BusConnection {
  /** Null: not a member. Renewed credentials alone change nothing until the next connection. */
  set(target: BusMembership | null): void
  isConnected(): boolean
  close(farewell: boolean): Promise<void>
}

type OpenConnection = Readonly<{ key: string; bus: Bus; presence: Presence }>

export function createBusConnection({ connectBus, attach, log }: BusConnectionDeps): BusConnection {
  let wanted: BusMembership | null = null
  let open: OpenConnection | null = null
  let changes: Promise<void> = Promise.resolve()

  const drop = async (farewell: boolean): Promise<void> => {
    if (open === null) return
    const { bus, presence } = open
    open = null
    await presence.stop(farewell).catch((error: unknown) => log.warn('cannot leave the bus cleanly', { error }))
    await bus.close().catch((error: unknown) => log.warn('cannot close the bus cleanly', { error }))
  }
  const connect = async ({ nodeId, bus: { url, ca } }: BusMembership, key: string): Promise<void> => {
    const bus = await connectBus({ nodeId, url, ca: ca ?? null, credentials: () => wanted?.bus.credentials ?? null })
    try {
      open = { key, bus, presence: attach(bus, nodeId) }
    } catch (error) {
      await bus.close()
      throw error
    }
  }
  const settle = async (): Promise<void> => {
    const key = wanted === null ? null : keyOf(wanted)
    if (open?.key === key) return
    await drop(false)
    // The next session may bring another URL.
    if (wanted !== null && key !== null)
      await connect(wanted, key).catch((error: unknown) => log.error('cannot connect to the bus', { error }))
  }
  return {
    set(target) {
      wanted = target
      changes = changes.then(settle)
    },
    isConnected: () => open?.bus.isConnected() ?? false,
    close(farewell) {
      wanted = null
      changes = changes.then(() => drop(farewell))
      return changes
    },
  }
}

/** A new URL, a new node, other certificates, or the first credentials need a new connection. */
const keyOf = ({ nodeId, bus }: BusMembership): string => JSON.stringify([nodeId, bus.url, bus.ca ?? null, bus.credentials === null])

/** Connects to the cluster's NATS with the token that a controller signed for this node's key; its seed never leaves the machine. */
export const connectNatsBus =
  ({
    key,
    tls,
    clock,
    log,
  }: {
    key: NodeKey
    /** By the settings of this machine. */ tls: NatsTls | null
    clock: Clock
    log: Log
  }): ConnectBus =>
  async ({ nodeId, url, ca, credentials }) => {
    if (url.startsWith('local:')) {
      throw new FleetError({
        code: 'unavailable',
        retry: 'never',
        message: "the controller's bus is inside its own process and cannot be reached from this one",
      })
    }
    return connectNats({
      url,
      tls: ca === null || tls?.ca !== undefined ? tls : { ...tls, ca },
      credentials: credentials() === null ? null : () => ({ jwt: credentials() ?? '', seed: key.seed.reveal() }),
      name: `muster worker ${nodeId}`,
      inboxPrefix: nodeInboxPrefix(nodeId),
      clock,
      log,
    })
  }
