// The bus over a NATS server.
import type { Clock, Log } from '@muster/host'
import type { Bus } from '../bus.ts'
import type { NatsTls } from './nats-tls.ts'

/** A user JWT and the nkey seed it was made for. */
export interface NatsCredentials {
  readonly jwt: string
  readonly seed: string
}

export interface NatsOptions {
  /** `nats://host:port` or `tls://…`, several separated by commas; may carry `user:password@`. */
  readonly url: string
  /** Called at each (re)connection, so that renewed credentials are used. */
  readonly credentials?: (() => NatsCredentials) | NatsCredentials | null
  /** With it, servers without TLS are refused. */
  readonly tls?: NatsTls | null
  /** Shown by the server's monitoring. */
  readonly name: string
  /** The prefix for answers (`_INBOX_<random>`). One per identity: no other client may listen there. */
  readonly inboxPrefix: string
  readonly log: Log
  readonly clock: Clock
}

/**
 * Returns at once and connects in the background, with retries forever: a process must start while NATS is down. Throws
 * only on a malformed URL.
 */
export async function connectNats(options: NatsOptions): Promise<Bus> {
  // Loaded on demand: a process with the in-process bus needs no NATS client.
  const { createNatsBus } = await import('./nats-wire.ts')
  return createNatsBus(options)
}
