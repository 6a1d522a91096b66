// GET /api/events: server-sent events. Bounded by construction: per listener, the newest state of each
// object waits, in the order in which objects changed first.
import type { Clock } from '@muster/host'
import { systemRoutes as routes } from '@muster/protocol'
import type { Event, EventHub } from '../events/hub.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

const pingEveryMs = 15_000
const maxListeners = 1_000
const encoder = new TextEncoder()

export function eventEndpoints(deps: { hub: EventHub; clock: Clock }): Endpoint[] {
  return [
    endpoint(routes.events, async (call) => {
      if (deps.hub.listenerCount() >= maxListeners) {
        throw new HttpError(503, 'too_many_listeners', `${maxListeners} listeners follow this controller already`, {
          headers: { 'retry-after': '10' },
        })
      }
      const last = call.headers.get('last-event-id')
      const stream = openStream({ ...deps, signal: call.signal, last })
      return new Response(stream, {
        headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store', 'x-accel-buffering': 'no' },
      })
    }),
  ]
}

interface StreamDeps {
  readonly hub: EventHub
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly last: string | null
}

const render = (event: Event): string =>
  `${event.cursor === null ? '' : `id: ${event.cursor}\n`}event: ${event.kind}\ndata: ${JSON.stringify(event.data)}\n\n`

function openStream({ hub, clock, signal, last }: StreamDeps): ReadableStream<Uint8Array> {
  const waiting = new Map<string, Event>()
  let controller: ReadableStreamDefaultController<Uint8Array>
  let isOpen = true

  const send = (text: string): void => {
    if (isOpen) controller.enqueue(encoder.encode(text))
  }
  const pump = (): void => {
    while (isOpen && (controller.desiredSize ?? 0) > 0) {
      const [next] = waiting
      if (next === undefined) return
      waiting.delete(next[0])
      send(render(next[1]))
    }
  }
  const stop = hub.listen((events) => {
    if (events.length === 0) return close()
    for (const event of events) waiting.set(`${event.kind} ${event.id}`, event)
    pump()
  })
  function close(): void {
    if (!isOpen) return
    isOpen = false
    stop()
    controller.close()
  }

  async function begin(): Promise<void> {
    // Listening began before this read, so nothing falls in between; what comes twice is the same.
    const missed = last === null ? [] : /^\d{1,16}$/.test(last) ? await hub.since(Number(last)) : null
    const cursor = hub.cursor()
    const id = cursor === null ? '' : `id: ${cursor}\n`
    send(missed === null ? `${id}event: reset\ndata: {}\n\n` : `: connected\n${id}\n`)
    for (const event of missed ?? []) if (!waiting.has(`${event.kind} ${event.id}`)) waiting.set(`${event.kind} ${event.id}`, event)
    pump()
    while (!signal.aborted && isOpen) {
      await clock.sleep(pingEveryMs, signal).catch(() => undefined)
      if ((controller.desiredSize ?? 0) > 0) send(': ping\n\n')
    }
  }

  return new ReadableStream<Uint8Array>(
    {
      start(c) {
        controller = c
        signal.addEventListener('abort', close, { once: true })
        void begin().then(close, close)
      },
      pull: pump,
      cancel: () => {
        isOpen = false
        stop()
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 64 * 1024 }),
  )
}
