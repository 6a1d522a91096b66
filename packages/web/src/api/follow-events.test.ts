import type { ServerEvent } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { followEvents, type Liveness } from './live-context.tsx'

/** A connection that the page opened, with the server's end of its stream. */
interface Connection {
  readonly lastEventId: string | null
  readonly signal: AbortSignal
  send(text: string): void
  end(): void
  breakOff(): void
}

let connections: Connection[] = []
let next: () => Response | 'stream' | 'refused' = () => 'stream'
const received: { events: ServerEvent[]; gaps: number; liveness: Liveness[] } = { events: [], gaps: 0, liveness: [] }
let stop = new AbortController()

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  vi.setSystemTime(1_000_000)
  connections = []
  next = () => 'stream'
  Object.assign(received, { events: [], gaps: 0, liveness: [] })
  stop = new AbortController()
  const windows = new EventTarget()
  vi.stubGlobal('location', { origin: 'http://controller' })
  vi.stubGlobal('addEventListener', windows.addEventListener.bind(windows))
  vi.stubGlobal('removeEventListener', windows.removeEventListener.bind(windows))
  vi.stubGlobal('dispatchEvent', windows.dispatchEvent.bind(windows))
  vi.stubGlobal('fetch', (_: URL, { headers, signal }: { headers: Headers; signal: AbortSignal }) => {
    const kind = next()
    if (kind === 'refused') return Promise.reject(new TypeError('Failed to fetch'))
    if (kind !== 'stream') return Promise.resolve(kind)
    const encoder = new TextEncoder()
    let control: ReadableStreamDefaultController<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (control = controller) })
    signal.addEventListener('abort', () => control?.error(signal.reason))
    connections.push({
      ...{ lastEventId: headers.get('last-event-id'), signal },
      send: (text) => control?.enqueue(encoder.encode(text)),
      end: () => control?.close(),
      breakOff: () => control?.error(new TypeError('network error')),
    })
    return Promise.resolve(new Response(body))
  })
})
afterEach(async () => {
  stop.abort()
  await vi.runAllTimersAsync()
  vi.useRealTimers()
  vi.unstubAllGlobals()
})

const follow = (): Promise<void> =>
  followEvents({
    signal: stop.signal,
    onEvent: (event) => received.events.push(event),
    onGap: () => (received.gaps += 1),
    onLiveness: (liveness) => received.liveness.push(liveness),
  })
const realTimeout = setTimeout
/** Streams advance in macrotasks of their own, which fake timers do not drive. */
const settle = async (ms = 0): Promise<void> => {
  await vi.advanceTimersByTimeAsync(ms)
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => realTimeout(resolve, 0))
}
const states = (): string[] => received.liveness.map(({ state }) => state)

describe('followEvents', () => {
  it('is live once connected, and reports one gap for data read before the connection', async () => {
    void follow()
    await settle()
    expect([states(), received.gaps, connections[0]?.lastEventId]).toEqual([['live'], 1, null])
  })

  it('parses events that arrive in several chunks', async () => {
    void follow()
    await settle()
    connections[0]?.send('event: node\nid: 7\nda')
    await settle()
    connections[0]?.send('ta: {"name":"ü"}\n\n')
    await settle()
    expect(received.events).toEqual([{ type: 'node', data: '{"name":"ü"}', lastEventId: '7' }])
  })

  it.each(['end', 'breakOff'] as const)('reconnects from the last event after the connection was closed (%s)', async (ending) => {
    void follow()
    await settle()
    connections[0]?.send('event: node\nid: 7\ndata: {}\n\n')
    await settle()
    connections[0]?.[ending]()
    await settle()
    expect(received.liveness.at(-1)).toEqual({ state: 'reconnecting', since: 1_000_000 })
    await settle(500)
    expect(connections[1]?.lastEventId).toBe('7')
    expect([states(), received.gaps]).toEqual([['live', 'reconnecting', 'live'], 1])
  })

  it('keeps the time of the first failure, and backs off', async () => {
    void follow()
    await settle()
    let tries = 0
    next = () => ((tries += 1), 'refused')
    connections[0]?.end()
    await settle(60_000)
    // After 0.5, 1, 2 and 4 s, then every 5 s.
    expect(tries).toBeGreaterThan(10)
    expect(tries).toBeLessThan(18)
    expect(received.liveness.at(-1)).toEqual({ state: 'reconnecting', since: 1_000_000 })
    next = () => 'stream'
    await settle(5_000)
    expect(received.liveness.at(-1)).toEqual({ state: 'live' })
  })

  it('reconnects at once when the browser is online again', async () => {
    void follow()
    await settle()
    next = () => 'refused'
    connections[0]?.end()
    await settle(20_000)
    next = () => 'stream'
    dispatchEvent(new Event('online'))
    await settle()
    expect(received.liveness.at(-1)).toEqual({ state: 'live' })
  })

  it('reports a gap when the server sends a reset', async () => {
    void follow()
    await settle()
    connections[0]?.send('event: reset\nid: 90\ndata: {}\n\n')
    await settle()
    expect([received.gaps, received.events]).toEqual([2, []])
    connections[0]?.end()
    await settle(500)
    expect(connections[1]?.lastEventId).toBe('90')
  })

  it('ends when the session has expired', async () => {
    next = () => new Response(JSON.stringify({ error: { code: 'unauthorized', message: 'log in', request_id: 'r' } }), { status: 401 })
    await follow()
    expect(states()).toEqual(['logged_out'])
  })

  it('retries while the server is starting', async () => {
    next = () => new Response(JSON.stringify({ error: { code: 'starting', message: 'wait', request_id: 'r' } }), { status: 503 })
    void follow()
    await settle()
    expect(states()).toEqual(['reconnecting'])
    next = () => 'stream'
    await settle(500)
    expect(states()).toEqual(['reconnecting', 'live'])
  })

  it('drops a connection that is silent, and keeps one that sends pings', async () => {
    void follow()
    await settle()
    await settle(30_000)
    connections[0]?.send(': ping\n\n')
    await settle()
    await settle(30_000)
    expect(states()).toEqual(['live'])
    await settle(10_000)
    expect(connections[0]?.signal.aborted).toBe(true)
    expect(states()).toEqual(['live', 'reconnecting'])
    await settle(500)
    expect([states().at(-1), connections.length]).toEqual(['live', 2])
  })

  it('ends at once when it is aborted', async () => {
    const done = follow()
    await settle()
    stop.abort()
    await done
    expect([states(), connections[0]?.signal.aborted]).toEqual([['live'], true])
  })
})
