// Files of models in a whole cluster: fetched from their source once, passed on from worker to worker, uploaded to two,
// and gone from everywhere when their model is deleted.
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { startFileServer, waitFor, type FileServer } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from './fleet-world.ts'
import { noise } from '../install/worker-world.ts'

let world: Fleet
let server: FileServer
beforeAll(async () => {
  server = await startFileServer()
  world = await startFleet({ postgresUrl: inject('postgresUrl'), workers: ['one', 'two'] })
})
afterAll(async () => {
  await world[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
/** The content that a worker keeps. */
const keptBy = async (name: string): Promise<string[]> =>
  (await readdir(join(world.directory, `worker-${name}`, 'models', 'blobs', 'sha256')).catch((): string[] => [])).toSorted()
const nodesOf = async (model: string): Promise<string[]> =>
  (await world.replicas(model))
    .filter(({ state }) => state === 'ready')
    .map(({ node_name: name }) => name)
    .toSorted()

describe('files of models', () => {
  it('W38 come from their source once, and then from another worker', async () => {
    const weights = noise(3 * 1024 ** 2, 'weights')
    server.put('/weights.bin', { bytes: weights })
    const files = [{ uri: `${server.url}/weights.bin`, filename: 'weights.bin', sha256: sha256(weights) }]
    await world.putModel('passed-on', {}, { parameters: { model: 'weights.bin' }, files })
    scriptedOf(await world.ask('passed-on'))
    await waitFor(async () => (await keptBy('one')).length + (await keptBy('two')).length === 1, { what: 'one copy' })
    await world.api.put('/api/models/passed-on/scheduling', { min_replicas: 2, max_replicas: 2 })
    await waitFor(async () => (await nodesOf('passed-on')).length === 2, { what: 'two replicas' })
    expect(await nodesOf('passed-on')).toEqual(['one', 'two'])
    for (const name of ['one', 'two']) expect(await keptBy(name)).toEqual([sha256(weights)])
    expect(server.answersFor('/weights.bin')).toEqual([{ from: 0, bytes: weights.length }])
  })

  it('S0.29 W31 S4.14 go with their model from every worker, also from one that comes back later', async () => {
    const two = world.workers.get('two')
    await two?.stop()
    const { status, body } = await world.api.delete('/api/models/passed-on')
    expect(status).toBe(202)
    expect((await world.api.get('/api/models/passed-on')).status).toBe(404)
    expect((await world.ask('passed-on')).status).toBe(404)
    await waitFor(async () => (await keptBy('one')).length === 0, { what: 'the first worker to have none' })
    expect(await keptBy('two')).toHaveLength(1)
    const operation = async (): Promise<string> =>
      String((await world.api.get(`/api/operations/${String(body['operation_id'])}`)).body['state'])
    await waitFor(async () => (await operation()) === 'background', { what: 'the deletion to wait for the other one' })
    await world.startWorker('two')
    await waitFor(async () => (await keptBy('two')).length === 0, { what: 'the other one to have none' })
    await waitFor(async () => (await operation()) === 'succeeded', { what: 'the deletion to end' })
    expect(await world.backendProcesses()).toEqual([])
  })

  it('are uploaded to two workers, and one that is lost is no loss', async () => {
    const weights = noise(2 * 1024 ** 2, 'uploaded')
    await world.putModel('uploaded', {}, { parameters: { model: 'dir/weights.bin' } })
    const sent = await world.api.call('PUT', `/api/models/uploaded/files/${encodeURIComponent('dir/weights.bin')}`, {
      raw: weights,
      headers: { 'content-type': 'application/octet-stream' },
    })
    expect(sent.body).toMatchObject({
      digest: `sha256:${sha256(weights)}`,
      size: weights.length,
      nodes: [expect.any(String), expect.any(String)],
    })
    for (const name of ['one', 'two']) expect(await keptBy(name)).toEqual([sha256(weights)])
    expect(scriptedOf(await world.ask('uploaded')).model).toBe('uploaded')
    const [first = ''] = await nodesOf('uploaded')
    await world.workers.get(first)?.stop()
    const elsewhere = await waitFor(async () => (await nodesOf('uploaded')).find((name) => name !== first), {
      what: 'a replica elsewhere',
    })
    expect(elsewhere).toBe(first === 'one' ? 'two' : 'one')
  })
})
