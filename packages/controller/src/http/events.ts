// GET /api/events: server-sent events. Bounded by construction: per listener, the newest state of each
// object waits, so who reads slowly gets fewer states, never a growing backlog.
import type { Clock } from '@muster/host'
import { systemRoutes as routes } from '@muster/protocol'
import type { PrincipalWatch } from '../auth/principal-watch.ts'
import type { Event, EventHub, Told } from '../events/hub.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

const pingEveryMs = 15_000
const maxListeners = 1_000
const encoder = new TextEncoder()
const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' }

export function eventEndpoints(deps: { hub: EventHub; clock: Clock; principalWatch: PrincipalWatch }): Endpoint[] {
  return [
    endpoint(routes.events, async (call) => {
      if (deps.hub.listenerCount() >= maxListeners) {
        throw new HttpError(503, 'too_many_listeners', `${maxListeners} listeners follow this controller already`, {
          headers: { 'retry-after': '10' },
        })
      }
      if (call.isHead) return new Response(null, { headers })
      const stream = new EventStream({
        ...deps,
        signal: call.signal,
        lastEventId: call.headers.get('last-event-id'),
        whileValid: (end) => deps.principalWatch.hold(call.principal, end),
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
  /** Calls `end` when the listener may no longer listen; gives back how to let go. */
  readonly whileValid: (end: () => void) => () => void
}

export class EventStream {
  readonly readable: ReadableStream<Uint8Array>
  readonly #deps: StreamDeps
  readonly #waiting = new Map<string, { event: Event; isTick: boolean }>()
  readonly #stopListening: () => void
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null
  /** An id acknowledges everything up to it, so it may name only what was sent completely. */
  #sentUpTo: number | null = null
  /** What will be acknowledged when nothing waits any more. */
  #cursor: number | null = null
  #isBegun = false

  constructor(deps: StreamDeps) {
    this.#deps = deps
    // Before anything is read, so that nothing falls in between; what comes twice is the same.
    const stopHearing = deps.hub.listen((told) => this.#take(told))
    const letGo = deps.whileValid(() => this.#close())
    this.#stopListening = () => {
      stopHearing()
      letGo()
    }
    this.readable = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller
          deps.signal.addEventListener('abort', () => this.#close(), { once: true })
          void this.#begin()
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

  #take(told: Told): void {
    if (told.do === 'cut') return this.#close()
    for (const event of told.events) {
      // A tick must not take the place of a state that is still to be acknowledged.
      const isTick = told.cursor === null && (this.#waiting.get(event.key)?.isTick ?? true)
      this.#waiting.set(event.key, { event, isTick })
    }
    this.#cursor = told.cursor ?? this.#cursor
    this.#pump()
  }

  async #begin(): Promise<void> {
    const { hub, clock, signal, lastEventId } = this.#deps
    const isNumber = lastEventId !== null && /^\d{1,15}$/.test(lastEventId)
    const missed = isNumber ? await hub.since(Number(lastEventId)) : null
    const id = hub.cursor()
    if (missed !== null) {
      this.#sentUpTo = Number(lastEventId)
      this.#send(': connected\n\n')
      this.#isBegun = true
      this.#take({ do: 'send', ...missed })
    } else {
      this.#sentUpTo = id
      const idLine = id === null ? '' : `id: ${id}\n`
      this.#send(lastEventId === null ? `: connected\n${idLine}\n` : `${idLine}event: reset\ndata: {}\n\n`)
      this.#isBegun = true
      this.#pump()
    }
    while (!signal.aborted && this.#controller !== null) {
      await clock.sleep(pingEveryMs, signal).catch(() => undefined)
      if ((this.#controller?.desiredSize ?? 0) > 0) this.#send(': ping\n\n')
    }
  }

  #pump(): void {
    while (this.#isBegun && (this.#controller?.desiredSize ?? 0) > 0) {
      const [next] = this.#waiting
      if (next === undefined) return
      this.#waiting.delete(next[0])
      if (this.#waiting.size === 0) this.#sentUpTo = Math.max(this.#cursor ?? 0, this.#sentUpTo ?? 0) || null
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
