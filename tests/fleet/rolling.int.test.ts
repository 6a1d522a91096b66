// Changes under load: the backend's version, the model, the node. No request fails.
import { nodesOf, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startLoad, type Load } from './load.ts'
import { startRollingWorld, type RollingWorld } from './rolling-world.ts'

const rollout = { canary: 1, max_parallel: 1, min_healthy_time: '1s' }
let world: RollingWorld
let load: Load
let tries = 0
beforeAll(async () => {
  world = await startRollingWorld({ postgresUrl: inject('postgresUrl'), controllers: 2, workers: ['one', 'two', 'three'] })
  await world.putModel('busy', {}, { scheduling: { replicas: 'all' } })
  await world.until('busy', ({ replicas_ready: ready }) => ready === 3)
})
afterAll(() => world[Symbol.asyncDispose]())

/** Replicas of the model that are ready and not draining. */
const ready = async () => (await world.replicas('busy')).filter(({ state }) => state === 'ready')
const treeNames = async (): Promise<Set<string>> => new Set((await world.trees()).map((path) => path.split('/').at(-2) ?? ''))
const isFailed = (): string => load.failures().slice(0, 3).join('\n')

describe('under 50 requests a second on three workers and two controllers', () => {
  it('S1.6 S1.7 S3.2 an upgrade of the backend fails no request, and all of it runs the new build', async () => {
    const before = await treeNames()
    expect(before.size).toBe(1)
    const digest = await world.publish(`2.0.${(tries += 1)}`)
    load = startLoad(world.controllers, { model: 'busy', perSecond: 50 })
    try {
      await waitFor(() => load.count() > 50, { what: 'load' })
      const { state, nodes } = await world.upgrade({ rollout })
      expect(state, JSON.stringify(nodes)).toBe('succeeded')
      expect(nodes.map(({ status, ring }) => `${ring} ${status}`).toSorted()).toEqual(['1 success', '2 success', '3 success'])
      load.builds()
      const asked = load.count()
      await waitFor(() => load.count() > asked + 100, { what: 'more answers' })
    } finally {
      await load.stop()
    }
    expect(load.failures(), isFailed()).toEqual([])
    expect(load.builds()).toEqual(new Set([`2.0.${tries}`]))
    expect((await ready()).map((replica) => replica.backend_digest)).toEqual([digest, digest, digest])
    await waitFor(async () => (await world.trees()).length === 3, { what: 'the old processes to have gone' })
    // A tree is named after its content: all three run in the new one.
    const after = await treeNames()
    expect(after.size).toBe(1)
    expect([...after].filter((tree) => before.has(tree))).toEqual([])
    expect(await world.upgrades()).toEqual([])
  })

  it('G16 an edit of the model reaches every replica, and fails no request', async () => {
    const before = (await ready()).map(({ revision }) => revision)
    load = startLoad(world.controllers, { model: 'busy', perSecond: 50 })
    try {
      await waitFor(() => load.count() > 50, { what: 'load' })
      await world.putModel('busy', { start_delay_ms: 200 }, { scheduling: { replicas: 'all' } })
      await waitFor(
        async () => {
          const now = await ready()
          return now.length === 3 && now.every(({ revision }) => !before.includes(revision))
        },
        { what: 'three replicas of the new revision' },
      )
    } finally {
      await load.stop()
    }
    expect(load.failures(), isFailed()).toEqual([])
  })

  it('W21 a node that is drained loses its replicas, and no request fails', async () => {
    await world.putModel('busy', { start_delay_ms: 200 }, { scheduling: { min_replicas: 2, max_replicas: 2 } })
    await waitFor(async () => (await ready()).length === 2, { what: 'two replicas' })
    const [from] = await ready()
    const node = (await nodesOf(world.api)).find(({ name }) => name === from?.node_name)
    load = startLoad(world.controllers, { model: 'busy', perSecond: 50 })
    try {
      await waitFor(() => load.count() > 50, { what: 'load' })
      expect((await world.api.post(`/api/nodes/${node?.id}/drain`)).status).toBeLessThan(300)
      await waitFor(
        async () => {
          const now = await ready()
          return now.length === 2 && now.every(({ node_name }) => node_name !== node?.name)
        },
        { what: 'two replicas elsewhere' },
      )
    } finally {
      await load.stop()
    }
    expect(load.failures(), isFailed()).toEqual([])
    await world.api.post(`/api/nodes/${node?.id}/resume`)
  })
})
