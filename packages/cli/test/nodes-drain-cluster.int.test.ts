// `muster nodes drain` against real controllers and workers: replicas move while their model answers, and stay where there is no other place.
import { adminKey, nodesOf } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from '../../../tests/fleet/fleet-world.ts'
import { type Result, runInProcess } from './run-in-process.ts'

let world: Fleet
const muster = (...args: string[]): Promise<Result> =>
  runInProcess(args, { MUSTER_URL: world.controllers[0]?.url ?? '', MUSTER_ADMIN_KEY: adminKey })

beforeAll(async () => {
  world = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one', 'two'] })
})
afterAll(() => world[Symbol.asyncDispose]())

const homes = async (): Promise<string[]> =>
  (await world.replicas('moved')).filter(({ state }) => state === 'ready').map((each) => each.node_name)

it('drains one node, lists replicas without a place when the last node is drained, and ends when there is one', async () => {
  for (const name of ['one', 'two']) await muster('nodes', 'resume', name)
  await world.putModel('moved', {}, { scheduling: { min_replicas: 1 } })
  await world.until('moved', ({ replicas_ready: ready }) => ready === 1)
  const [first = ''] = await homes()
  const second = first === 'one' ? 'two' : 'one'

  const moved = await muster('nodes', 'drain', first, '--wait=60s')
  expect(moved, moved.stderr).toMatchObject({ code: 0 })
  expect(moved.stdout).toMatch(
    new RegExp(`^${first}: 1 replica left: moved \\(ready\\)$[^]*^${first}: drained, safe to switch off: no replica is left$`, 'm'),
  )
  expect(await homes()).toEqual([second])
  scriptedOf(await world.ask('moved'))

  const stuck = await muster('nodes', 'drain', second)
  expect(stuck, stuck.stdout).toMatchObject({ code: 3 })
  expect(stuck.stderr).toMatch(/moved keeps serving until another node has room: no node can run moved: .*drain/)
  scriptedOf(await world.ask('moved'))
  const shown = await muster('nodes', 'show', second)
  expect(shown.stdout).toMatch(/^r-\S+ +moved +ready +yes +\d+ +[0-9a-f]{12} +[0-9a-f]{12}/m)

  expect((await muster('nodes', 'resume', first)).code).toBe(0)
  const done = await muster('nodes', 'drain', second, '--wait=60s')
  expect(done, done.stderr).toMatchObject({ code: 0 })
  expect(await homes()).toEqual([first])
  expect((await nodesOf(world.api)).map(({ status }) => status).toSorted()).toEqual(['draining', 'healthy'])
})
