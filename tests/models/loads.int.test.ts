// Loads and the backend installs that they need, on whole controllers and workers reduced to the wire.
import {
  backendDelete,
  backendInstall,
  backendList,
  backendUpgrade,
  modelLoad,
  modelUnload,
  opStatus,
  type InstalledBackend,
  type LoadModel,
  type OperationId,
  type ReplicaId,
} from '@muster/protocol'
import { boundMs, waitFor } from '@muster/testkit'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { listed, startOperationsWorld, type OperationsWorld, type WireWorker } from '../operations/operations-world.ts'

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl') })
})
afterAll(() => world[Symbol.asyncDispose]())

type Serving = Readonly<{ worker: WireWorker; asked: string[]; loads: LoadModel[]; unloads: ReplicaId[]; has: InstalledBackend[] }>

/** Takes everything on: installs and loads are done at once, upgrades never; processes end when they are told to. */
async function addServing(name: string, backends: readonly string[] = []): Promise<Serving> {
  const worker = await world.addWireWorker(name, { features: ['async', 'progress', 'upgrade'] })
  const { bus, id: node } = worker
  const serving: Serving = { worker, asked: [], loads: [], unloads: [], has: backends.map((each) => listed(each)) }
  const tell = (): void => worker.say({ type: 'inventory', backends: [...serving.has] })
  bus.serve(backendList, { node }, () => ({ backends: [...serving.has] }))
  const ended = (op: OperationId | undefined): void => {
    if (op !== undefined) worker.say({ type: 'op.result', op_id: op, state: 'succeeded' })
    tell()
  }
  bus.serve(backendInstall, { node }, ({ backend, op_id }) => {
    serving.asked.push(`install ${backend}`)
    serving.has.push(listed(backend))
    setImmediate(() => ended(op_id))
    return { accepted: true as const }
  })
  bus.serve(backendUpgrade, { node }, ({ backend }) => {
    serving.asked.push(`upgrade ${backend}`)
    return { accepted: true as const }
  })
  bus.serve(backendDelete, { node }, ({ backend, op_id }) => {
    serving.asked.push(`delete ${backend} while ${worker.replicas.length} run`)
    serving.has.splice(0, serving.has.length, ...serving.has.filter((each) => each.name !== backend))
    setImmediate(() => ended(op_id))
    return { accepted: true as const }
  })
  bus.serve(opStatus, { node }, ({ op_id }) => ({
    op_id,
    state: 'running' as const,
    phase: 'downloading' as const,
    current: serving.asked.length,
    total: 9,
  }))
  bus.serve(modelLoad, { node }, (load) => {
    const { replica_id, model, revision } = load
    serving.asked.push(`load ${model}`)
    serving.loads.push(load)
    worker.replicas.push({ replica_id, state: 'ready', in_flight: 0 })
    setImmediate(() => worker.say({ type: 'replica.ready', replica_id, model, revision, backend_digest: null }))
    return { accepted: true as const }
  })
  bus.serve(modelUnload, { node }, ({ replica_id }) => {
    serving.unloads.push(replica_id)
    const { model, revision } = serving.loads.find((each) => each.replica_id === replica_id) ?? {}
    worker.replicas.splice(0, worker.replicas.length, ...worker.replicas.filter((each) => each.replica_id !== replica_id))
    if (model !== undefined && revision !== undefined)
      setImmediate(() => worker.say({ type: 'replica.exited', replica_id, model, revision, backend_digest: null, expected: true }))
    return { accepted: true as const }
  })
  tell()
  await waitFor(async () => ((await world.api().get(`/api/nodes/${node}`)).body['backends'] as unknown as []).length === backends.length, {
    what: `${name} to be known`,
  })
  return serving
}

async function putModel(name: string, node: string, more: object = {}): Promise<void> {
  const config = { name, backend: 'llama', scheduling: { min_replicas: 1, node_selector: { 'node.name': node } }, ...more }
  const answer = await world.api().put(`/api/models/${name}`, config)
  expect([200, 201]).toContain(answer.status)
}
const untilModel = (name: string, state: string) =>
  waitFor(async () => (await world.api().get(`/api/models/${name}`)).body['state'] === state, { what: `${name} to be ${state}` })

describe('a load', () => {
  it('S1.19 installs the backend that its node lacks, once, as an ordinary operation', async () => {
    world.publish('llama', '1.0.0')
    const { asked } = await addServing('bare')
    await putModel('first', 'bare')
    await untilModel('first', 'ready')
    expect(asked).toEqual(['install llama', 'load first'])
    const { operations } = (await world.api().get('/api/operations?state=all')).body as unknown as {
      operations: { requested_by: string }[]
    }
    expect(operations.map(({ requested_by }) => requested_by)).toContain('load of model first')
    await putModel('second', 'bare')
    await untilModel('second', 'ready')
    expect(asked).toEqual(['install llama', 'load first', 'load second'])
  })

  it('S1.2 S1.24 waits for no upgrade of another backend of its node', async () => {
    world.publish('slow', '2.0.0')
    const { asked, worker } = await addServing('busy', ['llama', 'slow'])
    await world.upgrade('slow', { nodes: [worker.id] })
    await waitFor(() => asked.includes('upgrade slow'), { what: 'the upgrade to be under way' })
    const before = performance.now()
    await putModel('quick', 'busy')
    await untilModel('quick', 'ready')
    expect(performance.now() - before).toBeLessThan(boundMs(5_000))
    expect(asked).toEqual(['upgrade slow', 'load quick'])
  })
})

describe('deleting a backend', () => {
  it('E20 that runs a model is refused, and forced it waits until the process is gone', async () => {
    const { asked, worker, loads, unloads } = await addServing('user', ['llama'])
    await putModel('used', 'user')
    await untilModel('used', 'ready')
    const refused = await world.api().delete(`/api/backends/llama?node=${worker.id}`)
    expect(refused.status).toBe(409)
    expect(refused.body['error']).toMatchObject({ code: 'in_use', message: expect.stringContaining('used on user') })
    expect((await world.api().get(`/api/nodes/${worker.id}`)).body['models']).toEqual(['used'])
    const id = await world.remove('llama', `?node=${worker.id}&force=true`)
    expect(await world.ended(id)).toMatchObject({ state: 'succeeded' })
    expect(unloads).toEqual([loads[0]?.replica_id])
    expect(asked).toEqual(['load used', 'delete llama while 0 run'])
    // It would bring the backend back at once: it is held, until somebody asks for it.
    expect((await world.api().get('/api/models/used')).body).toMatchObject({ state: 'unloaded', replicas_desired: 0 })
  })
})
