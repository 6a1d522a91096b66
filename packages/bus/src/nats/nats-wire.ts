// One connection to a NATS server, kept up for ever. The client library restores a lost socket with
// its subscriptions; this file makes the first connection, and a new one when the library gave up.
import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
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
import { BusError } from '../bus.ts'
import { createSparseLog, type SparseLog } from '../sparse-log.ts'
import type { Listener, OutgoingPacket, Packet, Wire, WireEvents } from '../wire.ts'
import type { NatsOptions } from './connect-nats.ts'
import { createOutage, type Outage } from './outage.ts'
import { credentialsAuthenticator, type ServerOptions } from './server-options.ts'

/** How long a subscription that ends waits for what the server has already sent. */
const drainMs = 1000

export type NatsWireOptions = Omit<NatsOptions, 'url'> & { readonly servers: ServerOptions }

interface Ear {
  readonly pattern: string
  readonly queue: string | null
  readonly deliver: (packet: Packet) => void
  /** Null, or closed by the library after a refusal: made anew at the next connection. */
  subscription: Subscription | null
}

export class NatsWire implements Wire {
  readonly inbox: string
  readonly #options: NatsWireOptions
  readonly #events: WireEvents
  readonly #outage: Outage
  readonly #ears = new Set<Ear>()
  readonly #closing = new AbortController()
  readonly #refusals: SparseLog
  #client: NatsConnection | null = null
  #isUp = false

  constructor(options: NatsWireOptions, events: WireEvents) {
    this.#options = options
    this.#events = events
    this.#outage = createOutage(options)
    // Two processes with one identity must not hear each other's answers.
    this.inbox = `${options.inboxPrefix}.${randomUUID().slice(0, 8)}`
    this.#refusals = createSparseLog((reason, count) => options.log.error('not permitted on the bus', { reason, count }))
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
      throw new BusError('too_large', `not sent to ${packet.subject}: larger than this NATS server takes`, { cause: error })
    }
  }

  listen(pattern: string, queue: string | null, deliver: (packet: Packet) => void): Listener {
    const ear: Ear = { pattern, queue, deliver, subscription: null }
    this.#ears.add(ear)
    this.#attach(ear)
    return {
      stop: () => {
        this.#ears.delete(ear)
        if (ear.subscription?.isClosed() === false) ear.subscription.unsubscribe()
      },
      drain: async () => {
        this.#ears.delete(ear)
        const { subscription } = ear
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
        const reason = error instanceof Error ? error.message : String(error)
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
      // The configured addresses are those that work from here; a server behind NAT gossips others.
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
        // The library now waits for the socket to take what is buffered, which a dead peer never
        // does: drop this connection and make a new one.
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
      this.#options.log.warn('the bus reports an error', { reason: error.message })
    }
  }

  #setUp(client: NatsConnection): void {
    for (const ear of this.#ears) this.#attach(ear)
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

  #attach(ear: Ear): void {
    const client = this.#client
    if (client === null || client.isClosed()) return
    if (ear.subscription !== null && !ear.subscription.isClosed()) return
    ear.subscription = client.subscribe(ear.pattern, {
      ...(ear.queue === null ? {} : { queue: ear.queue }),
      callback: (error, message) => {
        if (error === null) ear.deliver(toPacket(message))
      },
    })
  }

  /** At most so long; its failure is no matter. */
  async #within(ms: number, work: Promise<void>): Promise<void> {
    const done = new AbortController()
    await Promise.race([work.catch(() => undefined), this.#options.clock.sleep(ms, done.signal).catch(() => undefined)])
    done.abort()
  }
}

function isAuthError(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError
}

// Between packets and NATS messages. Nothing here throws on what comes from outside: the client's
// reader would stop, and with it the connection.
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
