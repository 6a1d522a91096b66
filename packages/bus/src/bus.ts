// The interface of the bus. Two implementations, one contract suite.
// A request that times out means *unknown*: it may have been carried out, or be carried out later.
import type { Command, Params, ParamSchemas, ParamsOrAny, Topic } from '@muster/protocol'
import type { z } from 'zod'

/**
 * `no_responders`: no responder for the subject; the request was not carried out · `timeout`: unknown · `disconnected`: not
 * sent, or sent and the connection was lost (unknown) · `too_large`: refused before sending · `invalid`: the request or
 * the reply does not match the definition · `closed`: this connection was closed for good.
 */
export type BusErrorCode = 'no_responders' | 'timeout' | 'disconnected' | 'too_large' | 'invalid' | 'closed'

export class BusError extends Error {
  readonly code: BusErrorCode

  constructor(code: BusErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BusError'
    this.code = code
  }
}

export interface Subscription {
  /** Resolves when no handler runs any more; so a handler must not wait for it. Pending messages of `subscribe` are dropped. */
  stop(): Promise<void>
}

export interface SubscribeOptions {
  /** Each message goes to one of the subscribers with the same queue name. */
  readonly queue?: string
  /** How many messages may wait for the handler; the oldest is dropped beyond that (default 8,192). */
  readonly maxPending?: number
  /** How many messages of one subject may wait; excess ones are dropped, so that one sender cannot displace messages of others. */
  readonly maxPerSubject?: number
  /** Called for each message that is dropped because of `maxPending`. Excess messages of one subject are not reported. Must not throw. */
  readonly onOverflow?: () => void
}

/** Counts since the connection was made. */
export interface BusStats {
  readonly sent: number
  readonly received: number
  /** Dropped because a handler was too slow, because one sender published too many, or because there was no connection. */
  readonly dropped: number
  /** Dropped because they did not match the definition. */
  readonly malformed: number
}

export interface Bus {
  readonly kind: 'local' | 'nats'

  /**
   * Sends a request to one responder. Throws BusError, or FleetError with the failure of a handler that threw.
   * Never waits for a lost connection to come back: without one it fails as `disconnected` at once.
   */
  request<P extends ParamSchemas, Q extends z.ZodType, R extends z.ZodType>(
    command: Command<P, Q, R>,
    to: Params<P>,
    body: z.input<Q>,
    options: { readonly timeoutMs: number; readonly signal?: AbortSignal },
  ): Promise<z.output<R>>

  /** Answers requests concurrently. Several responders share the load. */
  serve<P extends ParamSchemas, Q extends z.ZodType, R extends z.ZodType>(
    command: Command<P, Q, R>,
    to: ParamsOrAny<P>,
    handler: (body: z.output<Q>, to: Params<P>) => Promise<z.input<R>> | z.input<R>,
  ): Subscription

  /** Fire and forget: lost without a connection or a subscriber. Throws on an invalid or too large message. */
  publish<P extends ParamSchemas, M extends z.ZodType>(topic: Topic<P, M>, to: Params<P>, message: z.input<M>): void

  /** In order, one at a time; a slow handler delays no other subscription. A handler that throws is logged. */
  subscribe<P extends ParamSchemas, M extends z.ZodType>(
    topic: Topic<P, M>,
    to: ParamsOrAny<P>,
    handler: (message: z.output<M>, to: Params<P>) => Promise<void> | void,
    options?: SubscribeOptions,
  ): Subscription

  /** A round trip to the server: resolves when everything sent before it has arrived there. */
  ping(timeoutMs: number): Promise<void>

  isConnected(): boolean
  /** Called on each change of `isConnected`; returns how to stop. */
  onConnection(listener: (connected: boolean) => void): () => void
  stats(): BusStats

  /** Stops taking messages, lets handlers finish (at most 2 s), flushes, closes. Idempotent. */
  close(): Promise<void>
}
