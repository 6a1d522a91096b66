// The bus over a NATS server.
import type { Clock, Log } from '@muster/host'
import type { Bus } from '../bus.ts'

/** A user JWT and the nkey seed it was made for. */
export interface NatsCredentials {
  readonly jwt: string
  readonly seed: string
}

export interface NatsOptions {
  /** `nats://host:port` or `tls://…`, several separated by commas; may carry `user:password@`. */
  readonly url: string
  /** Asked at each (re)connection, so renewed credentials are used from the next one on. */
  readonly credentials?: (() => NatsCredentials) | NatsCredentials | null
  /** Shown by the server's monitoring. */
  readonly name: string
  /** Answers come below it. One per identity, and nobody else may listen there (`_INBOX_<random>`). */
  readonly inboxPrefix: string
  readonly log: Log
  readonly clock: Clock
}

/**
 * Comes at once and connects in the background, for ever: a process must be able to start while NATS
 * is down. Throws only on a URL that can't be one.
 */
export async function connectNats(options: NatsOptions): Promise<Bus> {
  // On demand: a process with the in-process bus needs no NATS client.
  const { createNatsBus } = await import('./nats-bus.ts')
  return createNatsBus(options)
}
