// New versions that are no good: found out where they do the least harm, and taken back everywhere.
import { waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { startLoad } from './load.ts'
import { startRollingWorld, type RollingWorld } from './rolling-world.ts'

const rollout = { canary: 1, max_parallel: 1, min_healthy_time: '1s' }
let world: RollingWorld
/** A build that was fetched once is not fetched again, also by a test that is repeated. */
let tries = 0
beforeAll(async () => {
  world = await startRollingWorld({ postgresUrl: inject('postgresUrl'), controllers: 2, workers: ['one', 'two', 'three'] })
  await world.putModel('steady', {}, { scheduling: { replicas: 'all' } })
  await world.until('steady', ({ replicas_ready: ready }) => ready === 3)
})
afterAll(() => world[Symbol.asyncDispose]())

/** Upgrades under load and gives back how that ended, once everything runs the first build again. */
async function failToUpgrade() {
  const load = startLoad(world.controllers, { model: 'steady', perSecond: 20 })
  try {
    await waitFor(() => load.count() > 20, { what: 'load' })
    const operation = await world.upgrade({ rollout }, 120_000)
    await waitFor(async () => (await world.replicas('steady')).filter(({ state }) => state === 'ready').length === 3, {
      what: 'three replicas again',
    })
    load.builds()
    const before = load.count()
    await waitFor(() => load.count() > before + 60, { what: 'more answers' })
    return { operation, builds: load.builds(), failures: load.failures() }
  } finally {
    await load.stop()
  }
}

describe('a new version', { timeout: 240_000 }, () => {
  it('whose check fails on the canary is rolled back, and the old version answers all the time', async () => {
    await world.publish(`2.0.${(tries += 1)}`, { status: 500, message: 'this build cannot count' })
    const { operation, builds, failures } = await failToUpgrade()
    expect(failures).toEqual([])
    expect(builds).toEqual(new Set(['1.0.0']))
    expect(operation.state).toBe('failed')
    expect(operation.message).toContain('this build cannot count')
    const byStatus = Map.groupBy(operation.nodes, ({ status }) => status)
    expect(byStatus.get('error')).toHaveLength(1)
    expect(byStatus.get('cancelled')?.map(({ message }) => message)).toEqual(['rollout stopped', 'rollout stopped'])
    expect(await world.upgrades()).toEqual(['scripted'])
  })

  it('that fails on the second ring is taken back from the first one too, and nothing is fetched again', async () => {
    await world.publish(`3.0.${(tries += 1)}`, { crash_at_start: 'no such instruction', only_below: 'worker-three' })
    const before = world.fetched()
    const { operation, builds, failures } = await failToUpgrade()
    expect(failures).toEqual([])
    expect(builds).toEqual(new Set(['1.0.0']))
    expect(operation.state).toBe('failed')
    expect(operation.message).toContain('no such instruction')
    expect(operation.nodes.map(({ node_name, status, error_code }) => [node_name, status, error_code])).toEqual([
      ['one', 'error', 'rolled_back'],
      ['three', 'error', expect.anything()],
      ['two', 'cancelled', null],
    ])
    expect(await world.upgrades()).toEqual(['scripted'])
    expect(before.length).toBeGreaterThan(0)
    const after = world.fetched().slice(before.length)
    expect(after.length).toBeGreaterThan(0)
    expect(after.filter((digest) => before.includes(digest))).toEqual([])
  })
})
