// A cold model: one load in the whole cluster for all requests; the load outlives each of them.
import { nodesOf, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { scriptedOf, startFleet, type Fleet } from './fleet-world.ts'

let world: Fleet
beforeAll(async () => {
  world = await startFleet({ postgresUrl: inject('postgresUrl'), controllers: 3, workers: ['one', 'two'] })
})
afterAll(() => world[Symbol.asyncDispose]())

describe('a cold model', () => {
  it('G1 I15 300 requests at once over 3 controllers: exactly one load, all are served', async () => {
    await world.putModel('crowd', { start_delay_ms: 1_000 })
    const asked = Array.from({ length: 300 }, (_, at) => world.ask('crowd', {}, { of: at3(world, at) }))
    const answers = (await Promise.all(asked)).map(scriptedOf)
    expect(new Set(answers.map(({ replica_id }) => replica_id)).size).toBe(1)
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(1)
    expect(await world.backendProcesses()).toHaveLength(1)
    expect((await world.replicas('crowd')).filter(({ state }) => state !== 'exited')).toHaveLength(1)
  })

  it('G3 continues loading when its client disconnects', async () => {
    await world.putModel('left', { start_delay_ms: 1_500 })
    const abandoned = fetch(`${world.api.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'left', messages: [] }),
      signal: AbortSignal.timeout(500),
    })
    await expect(abandoned).rejects.toThrow(/abort|timeout/i)
    await world.until('left', ({ state }) => state === 'ready')
  })

  it('S0.30 is never loaded by a controller: without a worker that can, there is no capacity', async () => {
    await world.putModel('elsewhere', {}, { scheduling: { node_selector: { 'node.name': 'nobody' } } })
    const before = await world.backendProcesses()
    const refused = await world.ask('elsewhere')
    expect(refused.status).toBe(503)
    expect(refused.body['error']).toMatchObject({ code: 'no_capacity', message: expect.stringContaining('node.name') })
    expect(await world.backendProcesses()).toEqual(before)
    expect(await nodesOf(world.api)).toHaveLength(2)
  })

  it('is answered with how far it is when it takes longer than a request waits', async () => {
    await using slow = await startFleet({ postgresUrl: inject('postgresUrl'), args: ['--model-load-wait', '1s'] })
    await slow.putModel('late', { start_delay_ms: 4_000 })
    const waiting = await slow.ask('late')
    expect(waiting.status).toBe(503)
    expect(Number(waiting.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(waiting.body).toMatchObject({
      error: {
        type: 'model_loading',
        code: 'model_loading',
        message: expect.stringMatching(/^model late is (?:loading|installing|staging|pending|waiting)/),
      },
      loading: { model: 'late' },
    })
    await slow.until('late', ({ state }) => state === 'ready')
    expect(scriptedOf(await slow.ask('late')).model).toBe('late')
  })

  it('G2 is loaded to its end by another controller when the one that began is killed', async () => {
    await world.putModel('handed-over', { start_delay_ms: 2_500 })
    const [first, second] = world.controllers
    if (first === undefined || second === undefined) throw new Error('there are three controllers')
    void world.ask('handed-over', {}, { of: first }).catch(() => undefined)
    await waitFor(async () => (await second.api.get('/api/models/handed-over')).body['state'] === 'loading', {
      what: 'the load to be under way',
    })
    const served = world.ask('handed-over', {}, { of: second })
    first.process.kill('SIGKILL')
    expect(scriptedOf(await served).model).toBe('handed-over')
    const { body } = await second.api.get('/api/models/handed-over/replicas')
    expect((body['replicas'] as unknown as { state: string }[]).filter(({ state }) => state !== 'exited')).toHaveLength(1)
  })
})

function at3({ controllers }: Fleet, at: number) {
  const one = controllers[at % controllers.length]
  if (one === undefined) throw new Error('there are three controllers')
  return one
}
