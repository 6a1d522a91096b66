// The routing position of each controller, which others compare before they end a replica (dynamo #13622, kserve #5983).
import { newId } from '@muster/host'
import { waitFor, type TestController } from '@muster/testkit'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startServingWorld, type ServingWorld } from './serving-world.ts'
import type { StubGateway } from './stub-gateway.ts'

let world: ServingWorld
let other: TestController
let node: StubGateway

beforeAll(async () => {
  world = await startServingWorld({ flags: { 'expose-routing': true } })
  other = await world.addController()
  node = await world.addNode('gpu-1')
  await world.addModel('tiny')
})
afterAll(() => world[Symbol.asyncDispose]())

/** One position per controller, the lowest first. */
async function told(): Promise<number[]> {
  const { rows } = await world.db.query<{ routes_seq: string }>('select routes_seq from controllers order by routes_seq')
  return rows.map((row) => Number(row.routes_seq))
}
async function changeOf(replica: string): Promise<number> {
  const { rows } = await world.db.query<{ seq: string }>(`select seq from changes where kind = 'replica' and id = $1`, [replica])
  return Number(rows[0]?.seq ?? Number.NaN)
}
const untilAllAre = (seq: number): Promise<unknown> =>
  waitFor(async () => (await told()).length === 2 && (await told()).every((each) => each >= seq), { what: 'all controllers to know' })

it('every controller publishes that it routes to a new replica, and then routes to it', async () => {
  const replica = await world.addReplica('tiny', node)
  await untilAllAre(await changeOf(replica))
  for (const at of [world.controller, other]) {
    const response = await world.chat('tiny', {}, { at })
    expect([response.status, response.headers.get('x-muster-replica')]).toEqual([200, replica])
  }
})

it('W21 a controller that has published the drain of a replica sends it no more requests', async () => {
  const [stays, goes] = [await world.addNode('stays'), await world.addNode('goes')]
  const model = `moving-${newId()}`
  const [, old = ''] = await world.serve(model, [stays, goes], { policy: 'least' })
  await untilAllAre(await changeOf(old))
  let isAsking = true
  const asking = [world.controller, other].flatMap((at) =>
    Array.from({ length: 4 }, async () => {
      const statuses = new Set<number>()
      while (isAsking) {
        const response = await world.chat(model, {}, { at })
        await response.text()
        statuses.add(response.status)
      }
      return [...statuses]
    }),
  )
  try {
    await waitFor(() => goes.requests.length > 0, { what: 'it to be asked' })
    await world.db.query(`update replicas set state = 'draining', drain_since = now() where id = $1`, [old])
    await untilAllAre(await changeOf(old))
    const [before, served] = [goes.requests.length, stays.requests.length]
    await waitFor(() => stays.requests.length > served + 20, { what: 'more requests' })
    expect(goes.requests.length).toBe(before)
  } finally {
    isAsking = false
  }
  for (const statuses of await Promise.all(asking)) expect(statuses).toEqual([200])
})

it('a controller that stops is not waited for', async () => {
  const leaving = await world.addController()
  await waitFor(async () => (await told()).length === 3, { what: 'the third one' })
  await waitFor(async () => (await told()).every((each) => each > 0), { what: 'the third one to tell' })
  await leaving.stop()
  expect(await told()).toHaveLength(2)
})
