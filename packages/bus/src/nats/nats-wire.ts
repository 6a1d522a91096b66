// The bus over NATS: one connection that is kept up forever. The client library restores a lost socket and its
// subscriptions; this file makes the first connection, and a new one when the library gave up.
import {
  AuthorizationError,
  connect,
  headers,
  InvalidArgumentError,
  type Msg,
  type NatsConnection,
  PermissionViolationError,
  type PublishOptions,
  type Status,
  type Subscription,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node'
import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { withDeadline, errorMessage } from '@muster/host'
import { type Bus, BusError } from '../bus.ts'
import { BusConnection } from '../connection.ts'
import { createSparseLog, type SparseLog } from '../sparse-log.ts'
import { realTimer } from '../timer.ts'
import type { Listener, OutgoingPacket, Packet, Wire, WireEvents } from '../wire.ts'
import type { NatsOptions } from './connect-nats.ts'
import { createOutage, type Outage } from './outage.ts'
import { credentialsAuthenticator, type ServerOptions, serversOf } from './server-options.ts'

export function createNatsBus(options: NatsOptions): Bus {
  const servers = serversOf(options.url, options.tls ?? null)
  const log = options.log.child({ bus: servers.servers.join(',') })
  return new BusConnection({
    kind: 'nats',
    log,
    startTimer: realTimer,
    open: (events) => new NatsWire({ ...options, log, servers }, events),
  })
}

/** How long an ending subscription waits for messages that the server has already sent. */
const drainMs = 1000

export type NatsWireOptions = Omit<NatsOptions, 'url'> & { readonly servers: ServerOptions }

interface Subscriber {
  readonly pattern: string
  readonly queue: string | null
  readonly deliver: (packet: Packet) => void
  /** Null, or closed by the library after a refusal: subscribed again at the next connection. */
  subscription: Subscription | null
}

class NatsWire implements Wire {
  readonly inbox: string
  readonly #options: NatsWireOptions
  readonly #events: WireEvents
  readonly #outage: Outage
  readonly #subscribers = new Set<Subscriber>()
  readonly #closing = new AbortController()
  readonly #refusals: SparseLog
  #client: NatsConnection | null = null
  #isUp = false

  constructor(options: NatsWireOptions, events: WireEvents) {
    this.#options = options
    this.#events = events
    this.#outage = createOutage(options)
    // Two processes with one identity must not receive each other's answers.
    this.inbox = `${options.inboxPrefix}.${randomUUID().slice(0, 8)}`
    this.#refusals = createSparseLog((reason, count) => options.log.error('bus permission denied', { reason, count }))
    void this.#run()
  }

  send(packet: OutgoingPacket): boolean {
    const client = this.#client
    if (client === null || !this.#isUp || client.isClosed()) return false
    try {
      client.publish(packet.subject, Buffer.from(packet.text), publishOptions(packet))
      return true
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error
      throw new BusError('too_large', `cannot send to ${packet.subject}: larger than this NATS server takes`, { cause: error })
    }
  }

  listen(pattern: string, queue: string | null, deliver: (packet: Packet) => void): Listener {
    const subscriber: Subscriber = { pattern, queue, deliver, subscription: null }
    this.#subscribers.add(subscriber)
    this.#attach(subscriber)
    return {
      stop: () => {
        this.#subscribers.delete(subscriber)
        if (subscriber.subscription?.isClosed() === false) subscriber.subscription.unsubscribe()
      },
      drain: async () => {
        this.#subscribers.delete(subscriber)
        const { subscription } = subscriber
        if (subscription === null || subscription.isClosed()) return
        if (this.#isUp) await this.#within(drainMs, subscription.drain())
        if (!subscription.isClosed()) subscription.unsubscribe()
      },
    }
  }

  async ping(): Promise<void> {
    const client = this.#client
    if (client === null || !this.#isUp) throw new BusError('disconnected', 'no connection to the bus')
    try {
      await client.flush()
    } catch (error) {
      throw new BusError('disconnected', 'lost the connection to the bus', { cause: error })
    }
  }

  async close(flushMs: number): Promise<void> {
    this.#closing.abort()
    const client = this.#client
    if (client === null) return
    if (this.#isUp) await this.#within(flushMs, client.flush())
    await client.close()
  }

  async #run(): Promise<void> {
    for (;;) {
      const client = await this.#dial()
      if (client === null) return
      this.#client = client
      this.#setUp(client)
      for await (const status of client.status()) this.#onStatus(client, status)
      this.#setDown({ reason: 'closed' })
    }
  }

  async #dial(): Promise<NatsConnection | null> {
    const { signal } = this.#closing
    for (;;) {
      if (signal.aborted) return null
      try {
        const client = await connect(this.#clientOptions())
        if (!signal.aborted) return client
        await client.close()
      } catch (error) {
        const reason = errorMessage(error)
        if (isAuthError(error)) this.#outage.refused(reason)
        else this.#outage.failed(reason)
      }
      await this.#options.clock.sleep(this.#outage.nextDelayMs(), signal).catch(() => undefined)
    }
  }

  #clientOptions() {
    const { servers, credentials, name, inboxPrefix } = this.#options
    return {
      ...servers,
      ...(credentials === undefined || credentials === null ? {} : { authenticator: credentialsAuthenticator(credentials) }),
      name,
      inboxPrefix,
      // The library's defaults give up after 10 tries, and notice a dead peer after 6 minutes.
      maxReconnectAttempts: -1,
      pingInterval: 5000,
      maxPingOut: 2,
      timeout: 5000,
      reconnectDelayHandler: () => {
        if (this.#client !== null) this.#outage.failed()
        return this.#outage.nextDelayMs()
      },
      ignoreAuthErrorAbort: true,
      // Only the configured addresses are known to work from here; a server behind NAT gossips others.
      ignoreClusterUpdates: true,
      noAsyncTraces: true,
    }
  }

  #onStatus(client: NatsConnection, status: Status): void {
    switch (status.type) {
      case 'disconnect':
        return this.#setDown({ server: status.server })
      case 'reconnect':
        return this.#setUp(client)
      case 'staleConnection':
        // The library now waits for the socket to flush, which never happens with a dead peer: replace the connection.
        void client.close()
        return
      case 'error':
        return this.#onError(status.error)
      case 'close':
      case 'forceReconnect':
      case 'ldm':
      case 'ping':
      case 'reconnecting':
      case 'slowConsumer':
      case 'update':
        return
    }
  }

  #onError(error: Error): void {
    if (error instanceof PermissionViolationError) {
      this.#refusals.report(error.message)
      if (error.operation === 'publish') this.#events.refused(error.subject, error.message)
    } else if (isAuthError(error)) {
      this.#outage.refused(error.message)
    } else {
      this.#options.log.warn('bus reported an error', { reason: error.message })
    }
  }

  #setUp(client: NatsConnection): void {
    for (const subscriber of this.#subscribers) this.#attach(subscriber)
    if (this.#isUp) return
    this.#isUp = true
    this.#refusals.reset()
    this.#outage.over({ server: client.getServer() })
    this.#events.connected(true)
  }

  #setDown(fields: Readonly<Record<string, unknown>>): void {
    if (!this.#isUp) return
    this.#isUp = false
    if (!this.#closing.signal.aborted) this.#outage.begin(fields)
    this.#events.connected(false)
  }

  #attach(subscriber: Subscriber): void {
    const client = this.#client
    if (client === null || client.isClosed()) return
    if (subscriber.subscription !== null && !subscriber.subscription.isClosed()) return
    subscriber.subscription = client.subscribe(subscriber.pattern, {
      ...(subscriber.queue === null ? {} : { queue: subscriber.queue }),
      callback: (error, message) => {
        if (error === null) subscriber.deliver(toPacket(message))
      },
    })
  }

  /** Waits for at most `ms`; ignores failures. */
  async #within(ms: number, work: Promise<void>): Promise<void> {
    await withDeadline({ clock: this.#options.clock, ms, what: 'the bus' }, () => work).catch(() => undefined)
  }
}

function isAuthError(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError
}

// Packets and NATS messages. Nothing here throws on foreign input: an exception would stop the client's reader, and with
// it the connection.
const failureHeader = 'muster-failure'

function toPacket(message: Msg): Packet {
  const { data, reply } = message
  return { subject: message.subject, text: textOf(data), reply: reply === undefined || reply === '' ? null : reply, kind: kindOf(message) }
}

function publishOptions({ reply, kind }: OutgoingPacket): PublishOptions {
  const options: PublishOptions = reply === null ? {} : { reply }
  if (kind !== 'failure') return options
  const marked = headers()
  marked.set(failureHeader, '1')
  return { ...options, headers: marked }
}

function textOf(data: Uint8Array): string | null {
  return isUtf8(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString() : null
}

function kindOf(message: Msg): Packet['kind'] {
  try {
    const { headers: found } = message
    if (found === undefined) return 'message'
    if (found.code === 503 && message.data.length === 0) return 'no_responders'
    return found.has(failureHeader) ? 'failure' : 'message'
  } catch {
    return 'message'
  }
}
