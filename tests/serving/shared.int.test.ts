// Two controllers and what they know of each other's requests: from what workers say, and from nothing else.
import { newId } from '@muster/host'
import { boundMs, waitFor, type TestController } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { chunkOf, type Behave, type StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let other: TestController
let node: StubGateway

beforeAll(async () => {
  world = await startServingWorld({ flags: { 'expose-routing': true } })
  other = await world.addController()
  node = await world.addNode('gpu-1')
})
afterAll(() => world[Symbol.asyncDispose]())

/** Begins its answer at once, and ends it when told. */
function slowly(): { behave: Behave; end: () => void } {
  const ended = Promise.withResolvers<void>()
  const behave: Behave = async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one'))
    await ended.promise
    response.end('data: [DONE]\n\n')
  }
  return { behave, end: ended.resolve }
}

/** Both controllers route to them. */
const untilKnown = (ids: readonly string[]): Promise<unknown> =>
  waitFor(
    async () => {
      const { rows } = await world.db.query<{ ok: boolean }>(
        `select count(*) = 2 and bool_and(routes_seq >= (select max(seq) from changes where kind = 'replica' and id = any($1))) as ok from controllers`,
        [ids],
      )
      return rows[0]?.ok === true
    },
    { what: 'both controllers to know' },
  )
const begin = async (model: string, at: TestController, i: number): Promise<Response> => {
  const response = await world.chat(model, { stream: true, messages: [{ role: 'user', content: `talk ${i}` }] }, { at })
  expect([response.status, response.headers.get('x-muster-in-flight')]).toEqual([200, null])
  return response
}

it.each(['least', 'prefix'])('a controller sees what another one has at a replica, and does not pile on it: %s', async (policy) => {
  const model = `${policy}-${newId()}`
  const slow = slowly()
  using held = new DisposableStack()
  held.defer(slow.end)
  const early = await world.serve(model, [node, node], { policy })
  for (const id of early) node.behave(id, slow.behave)
  await untilKnown(early)
  const answers: Response[] = []
  for (let i = 0; i < 8; i += 1) answers.push(await begin(model, world.controller, i))
  const late = [await world.addReplica(model, node), await world.addReplica(model, node)]
  for (const id of late) node.behave(id, slow.behave)
  await untilKnown(late)
  for (let i = 8; i < 24; i += 1) answers.push(await begin(model, other, i))
  // By its own requests alone the other one would have put four on each, or five where it prefers: eight and four, or ten.
  const counts = [...early, ...late].map((id) => node.open(id))
  expect(counts.reduce((sum, each) => sum + each, 0)).toBe(24)
  expect(Math.max(...counts), counts.join()).toBeLessThanOrEqual(policy === 'least' ? 7 : 9)
  slow.end()
  await Promise.all(answers.map((answer) => answer.text()))
  expect(node.open()).toBe(0)
})

it('I16 requests of all lengths through both, and clients that leave: the replicas have about the same, and nothing in the end', async () => {
  const model = `mixed-${newId()}`
  const replicas = await world.serve(model, [node, node, node, node], { policy: 'least' })
  for (const id of replicas) {
    node.behave(id, async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one'))
      await new Promise((resolve) => setTimeout(resolve, 20 + Math.random() * 300))
      response.end('data: [DONE]\n\n')
    })
  }
  await untilKnown(replicas)
  const spreads: number[] = []
  const until = performance.now() + 3_000
  const clients = Array.from({ length: 32 }, async (_, i) => {
    for (let n = 0; performance.now() < until; n += 1) {
      const leaving = new AbortController()
      const response = await world.chat(model, { stream: true }, { at: i % 2 === 0 ? world.controller : other, signal: leaving.signal })
      if (n % 5 === 4) leaving.abort()
      else await response.text()
      const counts = replicas.map((id) => node.open(id))
      spreads.push(Math.max(...counts) - Math.min(...counts))
    }
  })
  await Promise.all(clients)
  const sorted = spreads.toSorted((a, b) => a - b)
  // 32 clients are 8 for each of the four.
  expect(sorted[Math.floor(sorted.length / 2)], `of ${sorted.length}, at most ${sorted.at(-1)}`).toBeLessThanOrEqual(4)
  await waitFor(() => node.open() === 0, { what: 'all to be over' })
  for (const { api } of [world.controller, other]) {
    await waitFor(async () => /muster_inference_in_flight 0$/m.test((await api.get('/metrics')).text), { what: 'nothing under way' })
  }
})

it('2,000 streams at once through two controllers: each gets its whole answer, and nothing stays counted', async () => {
  const model = `many-${newId()}`
  const slow = slowly()
  using held = new DisposableStack()
  held.defer(slow.end)
  const replicas = await world.serve(model, [node, node, node, node], { policy: 'least' })
  for (const id of replicas) node.behave(id, slow.behave)
  await untilKnown(replicas)
  const asked = Array.from({ length: 2_000 }, async (_, i) => {
    const response = await world.chat(model, { stream: true }, { at: i % 2 === 0 ? world.controller : other })
    return await response.text()
  })
  await waitFor(() => node.open() === 2_000, { what: 'all streams to be open', timeoutMs: boundMs(30_000) })
  slow.end()
  const answers = await Promise.all(asked)
  expect(answers.filter((text) => text.includes('one') && text.endsWith('data: [DONE]\n\n'))).toHaveLength(2_000)
  await waitFor(() => node.open() === 0, { what: 'all to be over' })
})
