// A worker that is busy with slow installs and upgrades still starts models, and so do the others.
import { boundMs, nodesOf, startHostileRegistry, waitFor, type ApiAnswer, type HostileRegistry } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, untilHealthy, type Fleet } from './fleet-world.ts'
import { backendImage, noise } from '../install/worker-world.ts'

const slow = Array.from({ length: 20 }, (_, at) => `slow-${at}`)
let world: Fleet
let registry: HostileRegistry

beforeAll(async () => {
  registry = await startHostileRegistry()
  const gallery = [...slow, 'upgraded'].map((name) => ({ name, uri: `${registry.host}/${name}:latest` }))
  world = await startFleet({ postgresUrl: inject('postgresUrl'), gallery })
  await world.putModel('warm-backend')
  scriptedOf(await world.ask('warm-backend'))
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await registry.stop()
})

/** An image whose weights come at ten kilobytes a second. */
function publishSlowly(name: string, version = '1.0'): void {
  const image = backendImage(version, [{ path: 'weights', data: noise(1024 ** 2, `${name} ${version}`) }], { compression: 'none' })
  registry.addImage(name, image, 'latest')
  const [, weights] = image.layers
  if (weights === undefined) throw new Error('it has two layers')
  registry.on(weights.digest, { do: 'slow', chunkBytes: 1024, everyMs: 100 })
}

describe('twenty slow installs on the only worker', () => {
  it('S1.2 S1.24 do not delay the load of a model whose backend is installed', async () => {
    for (const name of slow) publishSlowly(name)
    const answers = await Promise.all(slow.map((backend) => world.api.post('/api/backends/install', { backend })))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]))
    const ids = answers.map(({ body }) => String(body['operation_id']))
    const phases = async (): Promise<string[]> => {
      const { body } = await world.api.get('/api/operations')
      const all = body['operations'] as unknown as { id: string; nodes: { status: string }[] }[]
      return all.filter(({ id }) => ids.includes(id)).flatMap(({ nodes }) => nodes.map(({ status }) => status))
    }
    await waitFor(async () => (await phases()).filter((status) => status === 'downloading').length === slow.length, {
      what: 'all of them to download',
    })
    await world.putModel('beside')
    const began = performance.now()
    expect(scriptedOf(await world.ask('beside')).model).toBe('beside')
    expect(performance.now() - began).toBeLessThan(boundMs(10_000))
    expect((await phases()).filter((status) => status === 'downloading')).toHaveLength(slow.length)
  })
})

describe('a slow upgrade on one node', () => {
  it('S1.26 does not delay a cold answer on another node, nor one there by another backend', async () => {
    await world.startWorker('two')
    await untilHealthy(world, 2)
    registry.addImage('upgraded', backendImage('1.0', [], { compression: 'none' }), 'latest')
    const one = (await nodesOf(world.api)).find(({ name }) => name === 'one')?.id
    const installed = await world.api.post('/api/backends/install', { backend: 'upgraded', nodes: [one] })
    const stateOf = async ({ body }: ApiAnswer): Promise<string> =>
      String((await world.api.get(`/api/operations/${String(body['operation_id'])}`)).body['state'])
    await waitFor(async () => (await stateOf(installed)) === 'succeeded', { what: 'the first version' })
    publishSlowly('upgraded', '2.0')
    const upgrade = await world.api.post('/api/backends/upgraded/upgrade', {})
    expect(upgrade.status, upgrade.text).toBe(202)
    for (const node of ['one', 'two']) {
      await world.putModel(`cold-on-${node}`, {}, { scheduling: { node_selector: { 'node.name': node } } })
      const began = performance.now()
      expect(scriptedOf(await world.ask(`cold-on-${node}`)).model).toBe(`cold-on-${node}`)
      expect(performance.now() - began).toBeLessThan(boundMs(15_000))
    }
    expect(await stateOf(upgrade)).toBe('running')
  })
})
