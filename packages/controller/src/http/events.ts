// GET /api/events: server-sent events. A listener's queue holds only the newest state of each object, so a slow reader
// gets fewer states, never a growing backlog.
import type { Clock } from '@muster/host'
import { systemRoutes as routes } from '@muster/protocol'
import type { PrincipalWatch } from '../auth/principal.ts'
import type { Event, EventHub, HubMessage } from '../events/feed.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

const pingEveryMs = 15_000
const maxListeners = 1_000
const encoder = new TextEncoder()
const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

interface EventDeps {
  readonly hub: EventHub
  readonly clock: Clock
  readonly principalWatch: PrincipalWatch
  /** Aborted when the controller accepts no more connections: streams end, so that pages connect to another one. */
  readonly closing: AbortSignal
}

export function eventEndpoints({ closing, ...deps }: EventDeps): Endpoint[] {
  return [
    endpoint(routes.events, async (call) => {
      if (deps.hub.listenerCount() >= maxListeners) {
        throw new HttpError(503, 'too_many_listeners', `this controller already has ${maxListeners} event listeners; try again later`, {
          headers: { 'retry-after': '10' },
        })
      }
      if (call.isHead) return new Response(null, { headers })
      const stream = new EventStream({
        ...deps,
        signal: AbortSignal.any([call.signal, closing]),
        lastEventId: call.headers.get('last-event-id'),
        watchPrincipal: (end) => deps.principalWatch.hold(call.principal, end),
      })
      return new Response(stream.readable, { headers })
    }),
  ]
}

interface StreamDeps {
  readonly hub: EventHub
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly lastEventId: string | null
  /** Calls `end` when the principal is revoked; returns a function that stops the watch. */
  readonly watchPrincipal: (end: () => void) => () => void
}

export class EventStream {
  readonly readable: ReadableStream<Uint8Array>
  readonly #deps: StreamDeps
  readonly #queue = new Map<string, { event: Event; isTick: boolean }>()
  readonly #stopListening: () => void
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null
  /** The id of an event acknowledges everything up to it, so it advances only when the queue is empty. */
  #sentUpTo: number | null = null
  /** The id to send once the queue is empty. */
  #cursor: number | null = null
  #isOpen = false

  constructor(deps: StreamDeps) {
    this.#deps = deps
    // Listens before it reads, so that no change falls in between; an object sent twice is harmless.
    const unsubscribe = deps.hub.listen((message) => this.#receive(message))
    const stopWatch = deps.watchPrincipal(() => this.#close())
    this.#stopListening = () => {
      unsubscribe()
      stopWatch()
    }
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
          deps.signal.addEventListener('abort', () => this.#close(), { once: true })
          void this.#open()
            .catch(() => undefined)
            .finally(() => this.#close())
        },
        pull: () => this.#pump(),
        cancel: () => {
          this.#controller = null
          this.#stopListening()
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: 64 * 1024 }),
    )
  }

  #receive(message: HubMessage): void {
    if (message.do === 'cut') return this.#close()
    for (const event of message.events) {
      // A tick must not replace a queued state that has to be acknowledged.
      const isTick = message.cursor === null && (this.#queue.get(event.key)?.isTick ?? true)
      this.#queue.set(event.key, { event, isTick })
    }
    this.#cursor = message.cursor ?? this.#cursor
    this.#pump()
  }

  async #open(): Promise<void> {
    const { hub, clock, signal, lastEventId } = this.#deps
    const isNumber = lastEventId !== null && /^\d{1,15}$/.test(lastEventId)
    const missed = isNumber ? await hub.since(Number(lastEventId)) : null
    const id = hub.cursor()
    if (missed !== null) {
      this.#sentUpTo = Number(lastEventId)
      this.#send(': connected\n\n')
      this.#isOpen = true
      this.#receive({ do: 'send', ...missed })
    } else {
      this.#sentUpTo = id
      const idLine = id === null ? '' : `id: ${id}\n`
      this.#send(lastEventId === null ? `: connected\n${idLine}\n` : `${idLine}event: reset\ndata: {}\n\n`)
      this.#isOpen = true
      this.#pump()
    }
    while (!signal.aborted && this.#controller !== null) {
      await clock.sleep(pingEveryMs, signal).catch(() => undefined)
      if ((this.#controller?.desiredSize ?? 0) > 0) this.#send(': ping\n\n')
    }
  }

  #pump(): void {
    while (this.#isOpen && (this.#controller?.desiredSize ?? 0) > 0) {
      const [next] = this.#queue
      if (next === undefined) return
      this.#queue.delete(next[0])
      if (this.#queue.size === 0) this.#sentUpTo = Math.max(this.#cursor ?? 0, this.#sentUpTo ?? 0) || null
      const { event, isTick } = next[1]
      const id = isTick || this.#sentUpTo === null ? '' : `id: ${this.#sentUpTo}\n`
      this.#send(`${id}event: ${event.kind}\ndata: ${event.json}\n\n`)
    }
  }

  #send(text: string): void {
    this.#controller?.enqueue(encoder.encode(text))
  }

  #close(): void {
    this.#stopListening()
    this.#controller?.close()
    this.#controller = null
  }
}
