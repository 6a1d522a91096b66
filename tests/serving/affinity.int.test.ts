// Conversations stay where they were answered before, through any controller, and go on when that replica goes.
import { newId } from '@muster/host'
import { waitFor, type TestController } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import { chunkOf, refuse, type StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let other: TestController
let nodes: StubGateway[]

beforeAll(async () => {
  world = await startServingWorld({ flags: { 'expose-routing': true } })
  other = await world.addController()
  nodes = [await world.addNode('gpu-1'), await world.addNode('gpu-2'), await world.addNode('gpu-3')]
})
afterAll(() => world[Symbol.asyncDispose]())

type Talk = { role: string; content: string }[]
const talk = (about: number, turns = 1): Talk => [
  { role: 'system', content: 'You are helpful.' },
  ...Array.from({ length: turns }, (_, turn) => [
    ...(turn === 0 ? [] : [{ role: 'assistant', content: `answer ${turn}` }]),
    { role: 'user', content: `about ${about}, turn ${turn}` },
  ]).flat(),
]
async function ask(model: string, messages: Talk, at: TestController = world.controller) {
  const response = await world.chat(model, { messages }, { at })
  await response.text()
  return { status: response.status, replica: response.headers.get('x-muster-replica'), reason: response.headers.get('x-muster-reason') }
}

/** A model with a replica on each node, known to both controllers. */
async function serve(scheduling: object): Promise<{ model: string; replicas: string[] }> {
  const model = `m-${newId()}`
  const replicas = await world.serve(model, nodes, scheduling)
  for (const at of [world.controller, other]) {
    await waitFor(
      async () => {
        const seen = await Promise.all(Array.from({ length: 16 }, (_, i) => ask(model, talk(i), at)))
        return new Set(seen.map(({ replica }) => replica)).size === 3
      },
      { what: 'all three to be asked' },
    )
  }
  return { model, replicas }
}

it('W20 all turns of a conversation go to one replica, through either controller; conversations go to all', async () => {
  const { model } = await serve({})
  const used = new Set<string | null>()
  for (let about = 0; about < 8; about += 1) {
    const first = await ask(model, talk(about))
    expect(first).toMatchObject({ status: 200, reason: 'prefix' })
    for (const [turns, at] of [
      [2, other],
      [3, world.controller],
      [4, other],
    ] as const) {
      expect(await ask(model, talk(about, turns), at)).toEqual(first)
    }
    used.add(first.replica)
  }
  expect(used.size).toBeGreaterThan(1)
  expect((await world.controller.api.get('/metrics')).text).toMatch(/muster_affinity_total\{result="hit"\} [1-9]/)
})

it('policy least spreads requests with the same prefix', async () => {
  const { model, replicas } = await serve({ policy: 'least' })
  const counts = new Map(replicas.map((id) => [id, 0]))
  for (let i = 0; i < 30; i += 1) {
    const { replica, reason } = await ask(model, talk(1))
    expect(reason).toBe('fewest requests under way')
    counts.set(replica ?? '', (counts.get(replica ?? '') ?? 0) + 1)
  }
  expect([...counts.values()]).toEqual([10, 10, 10])
})

it('a conversation whose replica ends is answered by another one and stays there; other conversations do not move', async () => {
  const { model, replicas } = await serve({})
  // One after the other: at once some would be moved, because their first choice is full.
  const before: Awaited<ReturnType<typeof ask>>[] = []
  for (let about = 0; about < 12; about += 1) before.push(await ask(model, talk(about)))
  const gone = before[0]?.replica ?? ''
  nodes[replicas.indexOf(gone)]?.behave(gone, refuse('gone'))
  const [at0, at1] = [await ask(model, talk(0, 2)), await ask(model, talk(0, 2), other)]
  expect([at0.status, at1.status]).toEqual([200, 200])
  expect(at1.replica).toBe(at0.replica)
  await world.db.query(`update replicas set state = 'draining', drain_since = now() where id = $1`, [gone])
  await waitFor(async () => (await ask(model, talk(0, 3))).reason === 'prefix', { what: 'the other one to be its first choice' })
  expect((await ask(model, talk(0, 4))).replica).toBe(at0.replica)
  for (const [about, { replica }] of before.entries()) {
    if (replica !== gone) expect((await ask(model, talk(about, 2))).replica).toBe(replica)
  }
})

it('G12 W21 a draining replica gets no new requests, and its streams finish', async () => {
  const { model, replicas } = await serve({})
  const { replica } = await ask(model, talk(5))
  const node = nodes[replicas.indexOf(replica ?? '')]
  const goOn = Promise.withResolvers<void>()
  node?.behave(replica ?? '', async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one'))
    await goOn.promise
    response.end(`${chunkOf('two')}data: [DONE]\n\n`)
  })
  const streaming = await world.chat(model, { messages: talk(5, 2), stream: true })
  expect(streaming.headers.get('x-muster-replica')).toBe(replica)
  await world.db.query(`update replicas set state = 'draining', drain_since = now() where id = $1`, [replica])
  await waitFor(
    async () => {
      const answers = await Promise.all([world.controller, other].map((at) => world.chat(model, { messages: talk(5, 3) }, { at })))
      return answers.every((answer) => answer.headers.get('x-muster-replica') !== replica)
    },
    { what: 'both to ask another' },
  ).finally(goOn.resolve)
  expect(await streaming.text()).toBe(`${chunkOf('one')}${chunkOf('two')}data: [DONE]\n\n`)
})

it('one popular conversation does not overload its replica', async () => {
  const { model, replicas } = await serve({})
  const ended = Promise.withResolvers<void>()
  for (const [i, id] of replicas.entries()) {
    nodes[i]?.behave(id, async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(chunkOf('one'))
      await ended.promise
      response.end()
    })
  }
  const answers: Response[] = []
  for (let i = 0; i < 30; i += 1) {
    answers.push(await world.chat(model, { messages: talk(1), stream: true }, { at: i % 2 === 0 ? world.controller : other }))
  }
  const counts = replicas.map((id, i) => nodes[i]?.open(id) ?? 0)
  // A share is 10, and a quarter more; a few that were not known of yet.
  expect(Math.max(...counts), counts.join()).toBeLessThanOrEqual(15)
  expect(answers.map((answer) => answer.headers.get('x-muster-reason'))).toContain('prefix: its first choice was full')
  ended.resolve()
  await Promise.all(answers.map((answer) => answer.text()))
})
