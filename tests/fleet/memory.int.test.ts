// A node with memory for one replica of a model: its edit, and an upgrade of its backend, come to pass there all the same.
import { createHash } from 'node:crypto'
import { startFileServer, waitFor, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf } from './fleet-world.ts'
import { startRollingWorld, type RollingWorld } from './rolling-world.ts'

// A replica with a file of 30 MiB books 30 × 1.1 + 64 = 97 MiB: one fits into 150, two do not.
const weights = Buffer.alloc(30 * 1024 ** 2, 'weights')
const files = (url: string) => [
  { uri: `${url}/weights.bin`, filename: 'weights.bin', sha256: createHash('sha256').update(weights).digest('hex') },
]
let world: RollingWorld
let server: FileServer
beforeAll(async () => {
  server = await startFileServer()
  server.put('/weights.bin', { bytes: weights })
  world = await startRollingWorld({ postgresUrl: inject('postgresUrl'), workers: ['small'], workerArgs: ['--max-memory', '150MiB'] })
  const more = { parameters: { model: 'weights.bin' }, files: files(server.url), scheduling: { min_replicas: 1 } }
  await world.putModel('large', {}, more)
  await world.until('large', ({ replicas_ready: ready }) => ready === 1)
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

describe('a node with memory for one replica of a model', () => {
  it('S1.6 an upgrade falls back to recreate there, and its note records that', async () => {
    await world.publish('2.0.0')
    const operation = await world.upgrade({ rollout: { min_healthy_time: '1s' } })
    expect(operation.state, JSON.stringify(operation)).toBe('succeeded')
    expect(operation.nodes[0]?.message).toContain('recreate')
    await waitFor(async () => (await world.trees()).length === 1, { what: 'one process' })
    expect(scriptedOf(await world.ask('large')).build).toBe('2.0.0')
    expect(await world.upgrades()).toEqual([])
  })

  it('W17 a second model is refused with the reason, and the first one stays', async () => {
    const more = { parameters: { model: 'weights.bin' }, files: files(server.url), scheduling: { priority: -1 } }
    await world.putModel('second', {}, more)
    const { status, text } = await world.ask('second')
    expect([status, text]).toEqual([503, expect.stringContaining('memory')])
    expect((await world.model('large')).replicas_ready).toBe(1)
    const { body } = await world.api.get('/api/models/second/placement')
    expect(body['nodes']).toEqual([
      expect.objectContaining({ node_name: 'small', eligible: false, reason: expect.stringContaining('memory') }),
    ])
  })

  it('an edit of the model comes to pass as well', async () => {
    const [before] = await world.replicas('large')
    const more = { parameters: { model: 'weights.bin' }, files: files(server.url), scheduling: { min_replicas: 1 } }
    await world.putModel('large', { say: 'edited ' }, more)
    await waitFor(async () => (await world.ask('large')).text.includes('edited'), { what: 'the edited model' })
    expect((await world.replicas('large')).find(({ state }) => state === 'ready')?.id).not.toBe(before?.id)
    expect(await world.backendProcesses()).toHaveLength(1)
  })
})
