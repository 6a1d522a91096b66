// The contract of an event id: the listener has received everything up to it.
import { systemClock } from '@muster/host'
import { expect, it } from 'vitest'
import type { PrincipalWatch } from '../auth/principal.ts'
import type { Event, EventHub, EventListener, HubMessage } from '../events/feed.ts'
import type { Call } from './endpoint.ts'
import { eventEndpoints, EventStream } from './events.ts'

const ending = new AbortController()

function open(options: { lastEventId?: string; cursor?: number; missed?: { events: Event[]; cursor: number } | null } = {}) {
  let listener: EventListener = () => undefined
  let isCut = false
  let endStream: () => void = () => undefined
  const hub = {
    listen: (given: EventListener) => {
      listener = given
      return () => (isCut = true)
    },
    since: async () => options.missed ?? null,
    cursor: () => options.cursor ?? null,
    listenerCount: () => 1,
  } as unknown as EventHub
  const stream = new EventStream({
    hub,
    clock: systemClock,
    signal: ending.signal,
    lastEventId: options.lastEventId ?? null,
    watchPrincipal: (end) => ((endStream = end), () => undefined),
  })
  const reader = stream.readable.getReader()
  return {
    tell: (told: HubMessage) => listener(told),
    isCut: () => isCut,
    revoke: () => endStream(),
    read: async (): Promise<string> => new TextDecoder().decode((await reader.read()).value),
    isDone: async (): Promise<boolean> => (await reader.read()).done,
  }
}
const event = (id: string, data: object): Event => ({ kind: 'node', id, key: `node ${id}`, json: JSON.stringify({ id, ...data }) })
const node = (id: string, size = 0): Event => event(id, { filler: 'x'.repeat(size) })
const idOf = (text: string): string | null => /^id: (\d+)$/m.exec(text)?.[1] ?? null

it('starts with the id up to which no change was missed', async () => {
  const stream = open({ cursor: 41 })
  expect(await stream.read()).toBe(': connected\nid: 41\n\n')
})

it('acknowledges a batch only with its last event', async () => {
  const stream = open({ cursor: 41 })
  await stream.read()
  stream.tell({ do: 'send', events: [node('a'), node('b'), node('c')], cursor: 50 })
  expect([idOf(await stream.read()), idOf(await stream.read()), idOf(await stream.read())]).toEqual(['41', '41', '50'])
})

it('does not acknowledge missed changes before they are sent', async () => {
  const stream = open({ lastEventId: '10', cursor: 300, missed: { events: [node('a'), node('b')], cursor: 300 } })
  expect(idOf(await stream.read())).toBeNull()
  expect([idOf(await stream.read()), idOf(await stream.read())]).toEqual(['10', '300'])
})

it('sends a slow reader the newest state, and acknowledges when the queue is empty', async () => {
  const stream = open({ cursor: 1 })
  // More than is buffered: the rest waits here, and newer states take the place of older ones.
  stream.tell({ do: 'send', events: [node('big', 100_000)], cursor: 2 })
  for (let round = 0; round < 50; round += 1) {
    stream.tell({
      do: 'send',
      events: [event('a', { round }), event('b', { round })],
      cursor: 10 + round,
    })
  }
  await stream.read()
  const [big, first, second] = [await stream.read(), await stream.read(), await stream.read()]
  expect(big).toContain('xxx')
  expect(first).toContain('"round":49')
  expect(second).toContain('"round":49')
  expect([idOf(first), idOf(second)]).toEqual(['2', '59'])
})

it('gives ticks no id, and never replaces a queued state with a tick', async () => {
  const stream = open({ cursor: 5 })
  await stream.read()
  stream.tell({ do: 'send', events: [node('a')], cursor: null })
  expect(idOf(await stream.read())).toBeNull()
})

it('sends a reset to a listener with an unknown id', async () => {
  const stream = open({ lastEventId: 'nonsense', cursor: 7 })
  expect(await stream.read()).toBe('id: 7\nevent: reset\ndata: {}\n\n')
})

it('closes the stream when events cannot be read, so that the listener reconnects', async () => {
  const stream = open({ cursor: 5 })
  await stream.read()
  stream.tell({ do: 'cut' })
  expect(await stream.isDone()).toBe(true)
  expect(stream.isCut()).toBe(true)
})

it('SEC10 closes the stream when its principal is revoked or expires', async () => {
  const stream = open({ cursor: 5 })
  await stream.read()
  stream.revoke()
  expect(await stream.isDone()).toBe(true)
  expect(stream.isCut()).toBe(true)
})

it('SEC10 watches the principal of the request', async () => {
  const held: unknown[] = []
  const hub = { listenerCount: () => 0, listen: () => () => undefined, cursor: () => null } as unknown as EventHub
  const principalWatch: PrincipalWatch = { hold: (principal) => (held.push(principal), () => undefined), run: async () => undefined }
  const [events] = eventEndpoints({ hub, clock: systemClock, principalWatch, closing: ending.signal })
  const principal = { kind: 'key', id: 'k1', name: 'k1', scope: 'read' }
  const call = { principal, isHead: false, headers: new Headers(), signal: AbortSignal.timeout(60_000) } as unknown as Call<never>
  const answer = (await events?.handle(call)) as Response
  await answer.body?.cancel()
  expect(held).toEqual([principal])
})
