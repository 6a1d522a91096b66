// Operations that an administrator pauses, resumes, dismisses, or does not want to wait for; seen from two controllers.
import { waitFor, type ApiAnswer } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendName, createGate, failing } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker } from './operations-world.ts'

let world: OperationsWorld
let one: ScriptedWorker
let two: ScriptedWorker
beforeAll(async () => {
  // No test could wait for the next attempt.
  const flags = { 'op-retry-base': '1h', 'op-retry-max': '1h' }
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), controllers: 2, flags })
  ;[one, two] = await Promise.all([world.addWorker('one'), world.addWorker('two')])
})
afterAll(() => world[Symbol.asyncDispose]())

const unavailable = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' } as const
const post = (id: string, verb: string, body: object = {}, index = 0): Promise<ApiAnswer> =>
  world.api(index).post(`/api/operations/${id}/${verb}`, body)
const callsFor = (worker: ScriptedWorker, backend: string): number =>
  worker.installer.calls.filter((call) => call.backend === backendName(backend)).length
const listed = async (query: string): Promise<string[]> => {
  const { body } = await world.api(1).get(`/api/operations?${query}`)
  return (body['operations'] as unknown as { id: string }[]).map(({ id }) => id)
}

/** Every controller has had the chance to send something to the worker. */
async function untilOthersAreServed(worker: ScriptedWorker, name: string): Promise<void> {
  world.publish(name, '1.0.0')
  await world.ended(await world.install(name, { nodes: [worker.id] }))
}

describe('a paused operation', () => {
  it('begins no further node, finishes the running one, and continues when another controller resumes it', async () => {
    const gate = createGate()
    world.publish('held', '1.0.0')
    one.installer.script.set(backendName('held'), gate.behaviour)
    await two.stop()
    const id = await world.install('held')
    await world.until(id, 'at work', ({ nodes }) => nodes[0]?.status === 'downloading')

    expect(await post(id, 'pause')).toMatchObject({ status: 200, body: { state: 'running', paused_at: expect.any(String) as string } })
    expect((await post(id, 'pause', {}, 1)).status).toBe(200)
    await two.start()
    await world.untilStatus(two.id, 'healthy')
    await untilOthersAreServed(two, 'beside')
    expect(await world.operation(id, 1)).toMatchObject({
      nodes: [{ status: 'downloading' }, { status: 'queued', message: 'paused', paused: true, attempts: 0 }],
    })

    gate.open()
    const idle = await world.until(id, 'idle', ({ state }) => state === 'background', { index: 1 })
    expect(idle).toMatchObject({ message: 'paused; 1 of 2 nodes done', nodes: [{ status: 'success' }, { status: 'queued' }] })
    expect(callsFor(two, 'held')).toBe(0)

    expect((await post(id, 'resume', {}, 1)).status).toBe(200)
    const done = await world.ended(id)
    expect(done).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success' }, { status: 'success' }] })
    expect(done.paused_at).toBeUndefined()
    const history = (await world.api().get(`/api/operations/${id}/history`)).body['events'] as unknown as { type: string }[]
    expect(history.map(({ type }) => type)).toEqual(expect.arrayContaining(['paused', 'resumed']))
  })

  it('is not retried, and continues on nodes that another operation needs', async () => {
    world.publish('shared', '1.0.0')
    for (const worker of [one, two]) worker.installer.script.set(backendName('shared'), failing(unavailable))
    const id = await world.install('shared')
    await world.until(id, 'failing', ({ nodes }) => nodes.every(({ status }) => status === 'error'))
    await post(id, 'pause')
    expect((await world.operation(id, 1)).nodes).toMatchObject([
      { status: 'queued', message: 'paused; the last attempt failed: the registry is away', attempts: 1, next_retry_at: null },
      { status: 'queued', paused: true },
    ])
    expect(await post(id, 'retry', { node_id: one.id })).toMatchObject({ status: 409, body: { error: { code: 'paused' } } })

    for (const worker of [one, two]) worker.installer.script.delete(backendName('shared'))
    const other = await world.install('shared', { nodes: [one.id] }, 1)
    expect((await world.ended(other)).state).toBe('succeeded')
    await untilOthersAreServed(two, 'beside-2')
    expect((await world.operation(id)).nodes).toMatchObject([{ status: 'success' }, { status: 'queued', paused: true }])

    await post(id, 'resume')
    await post(id, 'retry')
    expect((await world.ended(id)).state).toBe('succeeded')
  })

  it('is cancelled like any other, and pausing what ends is refused', async () => {
    world.publish('dropped', '1.0.0')
    one.installer.script.set(backendName('dropped'), failing(unavailable))
    const id = await world.install('dropped', { nodes: [one.id] })
    await world.until(id, 'failing', ({ nodes }) => nodes[0]?.status === 'error')
    await post(id, 'pause')
    expect((await post(id, 'cancel')).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'cancelled' })
    expect(await post(id, 'pause')).toMatchObject({ status: 409, body: { error: { code: 'already_finished' } } })
    expect(await post(id, 'resume')).toMatchObject({ status: 409, body: { error: { code: 'already_finished' } } })
    expect((await post('op-none', 'pause')).status).toBe(404)
  })
})

describe('a node that waits for its next attempt', () => {
  it('is tried now, on one node or on all, and keeps its attempts', async () => {
    world.publish('hurried', '1.0.0')
    for (const worker of [one, two]) worker.installer.script.set(backendName('hurried'), failing(unavailable))
    const id = await world.install('hurried')
    await world.until(id, 'failing', ({ nodes }) => nodes.every(({ attempts }) => attempts === 1))
    expect((await post(id, 'retry', { node_id: one.id }, 1)).status).toBe(202)
    await world.until(id, 'tried again', ({ nodes }) => nodes[0]?.attempts === 2)
    expect(callsFor(two, 'hurried')).toBe(1)

    for (const worker of [one, two]) worker.installer.script.delete(backendName('hurried'))
    expect((await post(id, 'retry')).status).toBe(202)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 2 }, { attempts: 1 }] })
    expect(await post(id, 'retry')).toMatchObject({ status: 409, body: { error: { code: 'nothing_failed' } } })
  })
})

describe('a dismissed operation', () => {
  it('is left out of lists, until it is asked for or retried', async () => {
    world.publish('hidden', '1.0.0')
    one.installer.script.set(backendName('hidden'), failing({ code: 'not_found', retry: 'never', message: 'not there' }))
    const gate = createGate()
    two.installer.script.set(backendName('hidden'), gate.behaviour)
    const id = await world.install('hidden')
    expect(await post(id, 'dismiss')).toMatchObject({ status: 409, body: { error: { code: 'not_finished' } } })
    gate.open()
    expect((await world.ended(id)).state).toBe('failed')
    expect(await listed('state=finished')).toContain(id)

    expect(await post(id, 'dismiss')).toMatchObject({ status: 200, body: { dismissed_at: expect.any(String) as string } })
    expect((await post(id, 'dismiss', {}, 1)).status).toBe(200)
    expect([await listed('state=finished'), await listed('state=all')].flat()).not.toContain(id)
    expect(await listed('state=finished&dismissed=true')).toContain(id)

    one.installer.script.delete(backendName('hidden'))
    expect((await post(id, 'retry')).status).toBe(202)
    expect((await world.ended(id)).dismissed_at).toBeUndefined()
    await waitFor(async () => (await listed('state=finished')).includes(id), { what: 'the operation to be listed again' })
  })
})
