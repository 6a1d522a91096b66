import type { ServerEvent } from '@muster/protocol'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { followEvents, type Liveness } from './follow-events.ts'

/** One connection as the page opened it, with this end of its stream. */
interface Connection {
  readonly lastEventId: string | null
  readonly signal: AbortSignal
  send(text: string): void
  end(): void
  breakOff(): void
}

let connections: Connection[] = []
let next: () => Response | 'stream' | 'refused' = () => 'stream'
const seen: { events: ServerEvent[]; gaps: number; liveness: Liveness[] } = { events: [], gaps: 0, liveness: [] }
let stop = new AbortController()

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  vi.setSystemTime(1_000_000)
  connections = []
  next = () => 'stream'
  Object.assign(seen, { events: [], gaps: 0, liveness: [] })
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
    onEvent: (event) => seen.events.push(event),
    onGap: () => (seen.gaps += 1),
    onLiveness: (liveness) => seen.liveness.push(liveness),
  })
const realTimeout = setTimeout
/** Streams move on by themselves, in turns of their own that no timer counts. */
const settle = async (ms = 0): Promise<void> => {
  await vi.advanceTimersByTimeAsync(ms)
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => realTimeout(resolve, 0))
}
const states = (): string[] => seen.liveness.map(({ state }) => state)

describe('following the events', () => {
  it('is live when it is connected, and everything is read again once, because nobody listened before', async () => {
    void follow()
    await settle()
    expect([states(), seen.gaps, connections[0]?.lastEventId]).toEqual([['live'], 1, null])
  })

  it('gives events also when they arrive in pieces', async () => {
    void follow()
    await settle()
    connections[0]?.send('event: node\nid: 7\nda')
    await settle()
    connections[0]?.send('ta: {"name":"ü"}\n\n')
    await settle()
    expect(seen.events).toEqual([{ type: 'node', data: '{"name":"ü"}', lastEventId: '7' }])
  })

  it.each(['end', 'breakOff'] as const)('connects again from where it was after the connection (%s)', async (how) => {
    void follow()
    await settle()
    connections[0]?.send('event: node\nid: 7\ndata: {}\n\n')
    await settle()
    connections[0]?.[how]()
    await settle()
    expect(seen.liveness.at(-1)).toEqual({ state: 'reconnecting', since: 1_000_000 })
    await settle(500)
    expect(connections[1]?.lastEventId).toBe('7')
    expect([states(), seen.gaps]).toEqual([['live', 'reconnecting', 'live'], 1])
  })

  it('says since when it is away, not since the last try, and tries less often', async () => {
    void follow()
    await settle()
    let tries = 0
    next = () => ((tries += 1), 'refused')
    connections[0]?.end()
    await settle(60_000)
    // After 0.5, 1, 2 and 4 s, then every 5 s.
    expect(tries).toBeGreaterThan(10)
    expect(tries).toBeLessThan(18)
    expect(seen.liveness.at(-1)).toEqual({ state: 'reconnecting', since: 1_000_000 })
    next = () => 'stream'
    await settle(5_000)
    expect(seen.liveness.at(-1)).toEqual({ state: 'live' })
  })

  it('does not wait when the machine finds its network again', async () => {
    void follow()
    await settle()
    next = () => 'refused'
    connections[0]?.end()
    await settle(20_000)
    next = () => 'stream'
    dispatchEvent(new Event('online'))
    await settle()
    expect(seen.liveness.at(-1)).toEqual({ state: 'live' })
  })

  it('everything is read again when the server says that it has forgotten what was missed', async () => {
    void follow()
    await settle()
    connections[0]?.send('event: reset\nid: 90\ndata: {}\n\n')
    await settle()
    expect([seen.gaps, seen.events]).toEqual([2, []])
    connections[0]?.end()
    await settle(500)
    expect(connections[1]?.lastEventId).toBe('90')
  })

  it('ends where somebody has to log in', async () => {
    next = () => new Response(JSON.stringify({ error: { code: 'unauthorized', message: 'log in', request_id: 'r' } }), { status: 401 })
    await follow()
    expect(states()).toEqual(['logged_out'])
  })

  it('goes on trying where the server is only starting', async () => {
    next = () => new Response(JSON.stringify({ error: { code: 'starting', message: 'wait', request_id: 'r' } }), { status: 503 })
    void follow()
    await settle()
    expect(states()).toEqual(['reconnecting'])
    next = () => 'stream'
    await settle(500)
    expect(states()).toEqual(['reconnecting', 'live'])
  })

  it('does not believe in a connection that is silent, and does believe in one that has pings', async () => {
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

  it('ends at once, and says nothing more, when the page is left', async () => {
    const done = follow()
    await settle()
    stop.abort()
    await done
    expect([states(), connections[0]?.signal.aborted]).toEqual([['live'], true])
  })
})
