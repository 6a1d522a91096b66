// The cost of a change with many listeners.
import { silentLog, systemClock } from '@muster/host'
import { expect, it } from 'vitest'
import type { ChangeStore } from '../store/changes.ts'
import type { ChangeFeed, ChangeListener } from './feed.ts'
import { createEventHub, createNodeTicks, type HubMessage } from './feed.ts'

function world() {
  let onChange: ChangeListener = () => undefined
  let rendered = 0
  const feed = { listen: (listener: ChangeListener) => (onChange = listener), cursor: 1 } as unknown as ChangeFeed
  const view = (id: string) => ({ toJSON: () => ((rendered += 1), { id }) })
  const readers = { node: async (ids: readonly string[]) => new Map(ids.map((id) => [id, view(id)])) }
  const hub = createEventHub({ feed, changes: {} as unknown as ChangeStore, readers, log: silentLog })
  return {
    hub,
    rendered: () => rendered,
    change: (ids: readonly string[]) => onChange({ changes: ids.map((id, seq) => ({ kind: 'node', id, seq, deleted: false })), cursor: 2 }),
  }
}

it('renders an object once for all listeners', async () => {
  const { hub, rendered, change } = world()
  const told: HubMessage[] = []
  for (let i = 0; i < 300; i += 1) hub.listen((each) => void told.push(each))
  change(['a', 'b'])
  await expect.poll(() => told.length).toBe(300)
  expect(rendered()).toBe(2)
  expect(told[299]).toMatchObject({ do: 'send', events: [{ kind: 'node', id: 'a', json: '{"id":"a"}' }, { id: 'b' }], cursor: 2 })
})

it('yields to other work while it notifies many listeners', async () => {
  const { hub, change } = world()
  let told = 0
  for (let i = 0; i < 300; i += 1) hub.listen(() => void (told += 1))
  change(['a'])
  const seen = new Set<number>()
  while (told < 300) {
    await new Promise((resolve) => setImmediate(resolve))
    seen.add(told)
  }
  expect(seen.size).toBeGreaterThan(3)
})

it('notifies each listener in order, also a late one', async () => {
  const { hub, change } = world()
  const orders: string[][] = []
  const listen = (): void => {
    const order: string[] = []
    orders.push(order)
    hub.listen((told) => void (told.do === 'send' && order.push(...told.events.map(({ id }) => id))))
  }
  for (let i = 0; i < 200; i += 1) listen()
  for (const id of ['a', 'b', 'c']) change([id])
  listen()
  await expect.poll(() => orders.every((order) => order.at(-1) === 'c')).toBe(true)
  for (const order of orders) expect(order).toEqual(['a', 'b', 'c'])
})

it('ticks the nodes of a large fleet in turns, so that the numbers of each one move', async () => {
  const { hub } = world()
  const ticked: string[][] = []
  hub.listen((message) => message.do === 'send' && ticked.push(message.events.map(({ id }) => id)))
  let now = 0
  const ticks = createNodeTicks({ hub, clock: { ...systemClock, monotonic: () => now } })
  const nodes = Array.from({ length: 600 }, (_, index) => `n-${index}`)
  for (let second = 1; second <= 15; second += 1) {
    now = second * 1_000
    ticks.add(nodes)
  }
  await expect.poll(() => ticked.length).toBe(3)
  expect(ticked.map((ids) => ids.length)).toEqual([256, 256, 256])
  expect(new Set(ticked.flat()).size).toBe(600)
})
