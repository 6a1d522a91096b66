// The Bus over any wire: schemas on both sides, requests and their deadlines, handlers, counting.
import type { Log } from '@muster/host'
import { type Command, failureOf, FleetError, type Params, type ParamSchemas, type ParamsOrAny, type Topic } from '@muster/protocol'
import type { z } from 'zod'
import { type Bus, BusError, type BusStats, type SubscribeOptions, type Subscription } from './bus.ts'
import { anySubject, decode, decodeAnswer, encode, encodeFailure, exactSubject, paramsReader } from './codec.ts'
import { createInbox, MessageCounts } from './inbox.ts'
import { type Answer, createResponder, type RequestLimits, Requests } from './requests.ts'
import type { StartTimer } from './timer.ts'
import type { OutgoingPacket, Packet, Wire, WireEvents } from './wire.ts'

const defaultMaxPending = 8192
/** UTF-16 units that may wait for one handler: 64 of the largest messages. */
const maxPendingSize = 64 * 1024 * 1024
const maxInFlight = 1024
const handlersMayFinishMs = 2000
const flushMs = 1000
const serveQueue = 'serve'

export interface ConnectionOptions {
  readonly kind: Bus['kind']
  readonly log: Log
  readonly startTimer: StartTimer
  readonly open: (events: WireEvents) => Wire
}

export class BusConnection implements Bus {
  readonly kind: Bus['kind']
  readonly #log: Log
  readonly #startTimer: StartTimer
  readonly #wire: Wire
  readonly #requests: Requests
  readonly #subscriptions = new Set<Subscription>()
  readonly #listeners = new Set<(connected: boolean) => void>()
  readonly #tally: MessageCounts
  #isConnected = false
  #closing: Promise<void> | null = null
  #isClosed = false

  constructor({ kind, log, startTimer, open }: ConnectionOptions) {
    this.kind = kind
    this.#log = log
    this.#startTimer = startTimer
    this.#requests = new Requests(startTimer)
    this.#tally = new MessageCounts(log)
    this.#wire = open({
      connected: (isConnected) => this.#onConnected(isConnected),
      refused: (subject, reason) => this.#requests.failSubject(subject, new BusError('invalid', reason)),
    })
    const { inbox } = this.#wire
    this.#wire.listen(`${inbox}.*`, null, (packet) => {
      this.#tally.received += 1
      this.#requests.answer(packet.subject.slice(inbox.length + 1), packet)
    })
  }

  async request<P extends ParamSchemas, Q extends z.ZodType, R extends z.ZodType>(
    command: Command<P, Q, R>,
    to: Params<P>,
    body: z.input<Q>,
    limits: RequestLimits,
  ): Promise<z.output<R>> {
    limits.signal?.throwIfAborted()
    const subject = exactSubject(command, to)
    const text = encode(command.request, body, subject)
    if (this.#isClosed) throw new BusError('closed', `cannot send to ${subject}: the bus was closed`)
    const { token, answer } = this.#requests.open(subject, limits)
    try {
      const isSent = this.#send({ subject, text, reply: `${this.#wire.inbox}.${token}`, kind: 'message' })
      if (!isSent) this.#requests.fail(token, new BusError('disconnected', `cannot send to ${subject}: no connection to the bus`))
    } catch (error) {
      // Any other error is a bug of the wire.
      if (!(error instanceof BusError)) this.#log.error('cannot send a request', { subject, error })
      this.#requests.fail(token, error)
    }
    const packet = await answer
    try {
      return decodeAnswer(command.reply, subject, packet)
    } catch (error) {
      if (error instanceof BusError && error.code === 'invalid') this.#tally.malformed += 1
      throw error
    }
  }

  serve<P extends ParamSchemas, Q extends z.ZodType, R extends z.ZodType>(
    command: Command<P, Q, R>,
    to: ParamsOrAny<P>,
    handler: (body: z.output<Q>, to: Params<P>) => Promise<z.input<R>> | z.input<R>,
  ): Subscription {
    const subject = this.#subscribableSubject(command, to)
    const readParams = paramsReader(command, to)
    const malformed = this.#tally.malformedOn(subject)
    const work = async (request: Packet): Promise<Answer> => {
      try {
        const params = readParams(request.subject)
        const body = decode(command.request, request.text)
        if (!body.ok || params === null) {
          const reason = body.ok ? 'not a subject of this command' : body.reason
          malformed(reason)
          return { ok: false, failure: { code: 'invalid', retry: 'never', message: `${request.subject}: ${reason}` } }
        }
        return { ok: true, text: encode(command.reply, await handler(body.value, params), request.subject) }
      } catch (error) {
        if (!(error instanceof FleetError)) this.#log.error('command handler failed', { subject: request.subject, error })
        return { ok: false, failure: failureOf(error) }
      }
    }
    const responder = createResponder({
      maxInFlight,
      work,
      send: (replyTo, answer) => this.#answer(replyTo, answer),
      onNoReply: () => malformed('a request without a reply subject'),
    })
    const listener = this.#wire.listen(subject, serveQueue, (request) => {
      this.#tally.received += 1
      responder.accept(request)
    })
    return this.#own(async () => {
      await listener.drain()
      await responder.settled()
    })
  }

  publish<P extends ParamSchemas, M extends z.ZodType>(topic: Topic<P, M>, to: Params<P>, message: z.input<M>): void {
    const subject = exactSubject(topic, to)
    this.#sendOrLose({ subject, text: encode(topic.message, message, subject), reply: null, kind: 'message' })
  }

  subscribe<P extends ParamSchemas, M extends z.ZodType>(
    topic: Topic<P, M>,
    to: ParamsOrAny<P>,
    handler: (message: z.output<M>, to: Params<P>) => Promise<void> | void,
    { queue, maxPending = defaultMaxPending, maxPerSubject, onOverflow }: SubscribeOptions = {},
  ): Subscription {
    const subject = this.#subscribableSubject(topic, to)
    const readParams = paramsReader(topic, to)
    const malformed = this.#tally.malformedOn(subject)
    const excess = this.#tally.excessOn(subject)
    const inbox = createInbox<Packet>({
      ...{ maxPending, maxPendingSize },
      ...(maxPerSubject === undefined ? {} : { perSender: { max: maxPerSubject, senderOf: (packet: Packet) => packet.subject } }),
      handle: (packet) => {
        const params = readParams(packet.subject)
        const message = decode(topic.message, packet.text)
        if (!message.ok) return malformed(message.reason)
        if (params === null) return malformed('not a subject of this topic')
        return this.#guard(subject, () => handler(message.value, params))
      },
      onDropped: () => {
        this.#tally.dropped += 1
        onOverflow?.()
      },
      onExcess: (packet) => excess(packet.subject),
      onBurst: () => this.#log.warn('messages dropped: handler too slow', { subject, maxPending }),
    })
    const listener = this.#wire.listen(subject, queue ?? null, (packet) => {
      this.#tally.received += 1
      inbox.push(packet, packet.text?.length ?? 0)
    })
    return this.#own(async () => {
      listener.stop()
      await inbox.stop()
    })
  }

  async ping(timeoutMs: number): Promise<void> {
    if (this.#isClosed) throw new BusError('closed', 'the bus was closed')
    const timeout = Promise.withResolvers<never>()
    const cancel = this.#startTimer(timeoutMs, () =>
      timeout.reject(new BusError('timeout', `the bus did not answer within ${timeoutMs} ms`)),
    )
    try {
      await Promise.race([this.#wire.ping(), timeout.promise])
    } finally {
      cancel()
    }
  }

  isConnected(): boolean {
    return this.#isConnected
  }

  onConnection(listener: (connected: boolean) => void): () => void {
    // Wrapped: the same function may be registered twice.
    const registered = (connected: boolean): void => listener(connected)
    this.#listeners.add(registered)
    return () => this.#listeners.delete(registered)
  }

  stats(): BusStats {
    return this.#tally.stats()
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const stopped = Promise.all([...this.#subscriptions].map((subscription) => subscription.stop()))
    await this.#within(handlersMayFinishMs, stopped)
    this.#isClosed = true
    this.#requests.failAll((subject) => new BusError('closed', `the bus was closed while ${subject} was awaited`))
    await this.#wire.close(flushMs)
    this.#onConnected(false)
  }

  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    const limit = Promise.withResolvers<void>()
    const cancel = this.#startTimer(ms, limit.resolve)
    await Promise.race([work, limit.promise])
    cancel()
  }

  #subscribableSubject<P extends ParamSchemas>(definition: Command<P> | Topic<P>, to: ParamsOrAny<P>): string {
    const subject = anySubject(definition, to)
    if (this.#closing !== null) throw new BusError('closed', `cannot listen to ${subject}: the bus was closed`)
    return subject
  }

  #own(stop: () => Promise<void>): Subscription {
    let stopping: Promise<void> | null = null
    const subscription: Subscription = {
      stop: () => {
        stopping ??= stop().finally(() => this.#subscriptions.delete(subscription))
        return stopping
      },
    }
    this.#subscriptions.add(subscription)
    return subscription
  }

  #answer(replyTo: string, answer: Answer): void {
    const text = answer.ok ? answer.text : encodeFailure(answer.failure)
    try {
      this.#sendOrLose({ subject: replyTo, text, reply: null, kind: answer.ok ? 'message' : 'failure' })
    } catch (error) {
      // The reply is larger than the server's limit: send the failure instead.
      this.#log.error('cannot send a reply', { subject: replyTo, error })
      if (answer.ok) this.#answer(replyTo, { ok: false, failure: failureOf(error) })
    }
  }

  #sendOrLose(packet: OutgoingPacket): void {
    if (!this.#send(packet)) this.#tally.lose()
  }

  #send(packet: OutgoingPacket): boolean {
    if (this.#isClosed || !this.#wire.send(packet)) return false
    this.#tally.sent += 1
    return true
  }

  #guard(subject: string, handle: () => Promise<void> | void): Promise<void> | void {
    const failed = (error: unknown): void => this.#log.error('message handler failed', { subject, error })
    try {
      // A function typed as void may return a promise: `(connected) => connected && wake()`.
      const result: unknown = handle()
      if (result instanceof Promise) return result.catch(failed)
    } catch (error) {
      failed(error)
    }
  }

  #onConnected(isConnected: boolean): void {
    if (isConnected === this.#isConnected) return
    this.#isConnected = isConnected
    if (isConnected) this.#tally.reconnected()
    else {
      this.#requests.failAll((subject) => new BusError('disconnected', `the connection was lost while ${subject} was awaited`))
    }
    for (const listener of [...this.#listeners]) void this.#guard('connection', () => listener(isConnected))
  }
}
