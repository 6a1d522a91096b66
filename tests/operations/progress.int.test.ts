// The progress of an operation: from ticks on the bus to the answers of every controller.
import { readEvents, waitFor } from '@muster/testkit'
import { backendInstall, backendList, opStatus, type OperationNode, type OperationView } from '@muster/protocol'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { backendName, createGate, failing, type Behaviour } from '../../packages/worker/test/scripted-installer.ts'
import { startOperationsWorld, type OperationsWorld, type ScriptedWorker, type WireWorker } from './operations-world.ts'

let world: OperationsWorld
let [one, two]: [ScriptedWorker, ScriptedWorker] = [undefined as never, undefined as never]
let wire: WireWorker
/** Every command that the wire worker got. */
const commands: { backend: string; op_id?: string | undefined; epoch?: number | undefined }[] = []
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl') })
  ;[one, two] = await Promise.all([world.addWorker('b-one'), world.addWorker('a-two')])
  wire = await world.addWireWorker('wire', { features: ['async', 'progress'] })
  wire.bus.serve(backendInstall, { node: wire.id }, (command) => (commands.push(command), { accepted: true as const }))
  wire.bus.serve(opStatus, { node: wire.id }, ({ op_id }) => ({
    op_id,
    state: 'running' as const,
    phase: 'downloading' as const,
    current: 1 + Math.floor(performance.now()),
  }))
  wire.bus.serve(backendList, { node: wire.id }, () => ({ backends: [] }))
})
afterAll(() => world[Symbol.asyncDispose]())

const both = (): { nodes: string[] } => ({ nodes: [one.id, two.id] })
const query = async <T extends object>(text: string, values: unknown[] = []): Promise<T[]> => {
  const client = new Client({ connectionString: world.database.url })
  await client.connect()
  try {
    return (await client.query<T>(text, values)).rows
  } finally {
    await client.end()
  }
}
const only = (operation: OperationView): OperationNode => {
  const [node] = operation.nodes
  if (node === undefined || operation.nodes.length !== 1) throw new Error(`expected one node: ${JSON.stringify(operation.nodes)}`)
  return node
}
/** Sent to the wire worker and taken on by it. */
async function begin(backend: string): Promise<string> {
  world.publish(backend, '1.0.0')
  const id = await world.install(backend, { nodes: [wire.id] })
  await world.until(id, 'taken on', (operation) => only(operation).status === 'downloading')
  return id
}
const epochOf = (id: string): number => commands.findLast(({ op_id }) => op_id === id)?.epoch ?? -1
const tick = (id: string, backend: string, fields: Partial<Parameters<WireWorker['tick']>[1]>): void =>
  wire.tick(id, { backend: backendName(backend), file_name: '', current: 0, total: 0, percentage: 0, phase: 'downloading', ...fields })
const finish = (id: string): void => wire.say({ type: 'op.result', op_id: id as never, state: 'succeeded', epoch: epochOf(id) })

describe('reported progress', () => {
  it('S2.22 S2.26 S2.29 S2.31 S2.36 S2.48 is shown with its phase and file, from the first tick on, as downloading', async () => {
    const gate = createGate()
    const phases: Behaviour = async (context) => {
      context.onProgress({ phase: 'resolving' })
      context.onProgress({ phase: 'extracting', fileName: 'sha256:ab… (2/6)', current: 25, total: 100 })
      await gate.behaviour(context)
    }
    one.installer.script.set(backendName('p1'), phases)
    world.publish('p1', '1.0.0')
    const id = await world.install('p1', { nodes: [one.id] })
    const seen = await world.until(id, 'a quarter done', ({ nodes }) => nodes[0]?.percentage === 25)
    expect(only(seen)).toEqual({
      ...{ node_id: one.id, node_name: 'b-one', status: 'downloading', phase: 'extracting', message: '', file_name: 'sha256:ab… (2/6)' },
      ...{
        current: 25,
        total: 100,
        percentage: 25,
        attempts: 0,
        next_retry_at: null,
        dead: false,
        ring: null,
        error: null,
        error_code: null,
      },
    })
    expect(seen).toMatchObject({
      state: 'running' as const,
      progress: 25,
      current_bytes: 25,
      total_bytes: 100,
      file_name: 'sha256:ab… (2/6)',
      message: '0 of 1 nodes done',
    })
    gate.open()
    expect(only(await world.ended(id))).toMatchObject({ status: 'success', phase: null, percentage: 100, current: 100, total: 100 })
  })

  it('S2.30 S2.44 B1 B2 I10 never goes back: stale, foreign and late reports are dropped', async () => {
    const id = await begin('p2')
    const other = await begin('p2-other')
    tick(id, 'p2', { percentage: 50, current: 50, total: 100, seq: 50, epoch: epochOf(id) })
    await world.until(id, 'half done', (operation) => only(operation).percentage === 50)
    tick(id, 'p2', { percentage: 90, current: 90, total: 100, seq: 49, epoch: epochOf(id) })
    tick(id, 'p2', { percentage: 91, current: 91, total: 100, seq: 50, epoch: epochOf(id) })
    tick('op-nobody', 'p2', { percentage: 92, seq: 99 })
    // Another node speaks of this operation, and one node in the name of another: neither is heard.
    const stranger = await world.addWireWorker('stranger')
    stranger.tick(id, { backend: backendName('p2'), file_name: 'x', current: 93, total: 100, percentage: 93, phase: null, seq: 99 })
    // A restarted worker begins lower, with higher numbers.
    tick(id, 'p2', { percentage: 2, current: 2, total: 100, seq: 2 ** 33, epoch: epochOf(id) })
    tick(other, 'p2-other', { percentage: 10, current: 1, total: 10, seq: 2 ** 33 + 1, epoch: epochOf(other) })
    await world.until(other, 'moving', (operation) => only(operation).percentage === 10)
    expect(only(await world.operation(id))).toMatchObject({ percentage: 50, current: 2 })
    expect((await world.operation(id)).progress).toBe(50)
    finish(id)
    const done = await world.ended(id)
    tick(id, 'p2', { percentage: 3, current: 3, total: 100, seq: 2 ** 34, epoch: epochOf(id) })
    tick(other, 'p2-other', { percentage: 20, current: 2, total: 10, seq: 2 ** 34, epoch: epochOf(other) })
    await world.until(other, 'further', (operation) => only(operation).percentage === 20)
    expect(await world.operation(id)).toEqual(done)
    finish(other)
    await world.ended(other)
  })

  it('I10 S0.33 of a failed attempt does not count for the next one, and the total keeps the shown value', async () => {
    const id = await begin('p3')
    const failed = epochOf(id)
    tick(id, 'p3', { percentage: 60, current: 60, total: 100, file_name: 'old', seq: 1, epoch: failed })
    await world.until(id, 'at 60', (operation) => only(operation).percentage === 60)
    wire.say({
      type: 'op.result',
      op_id: id as never,
      state: 'failed',
      epoch: failed,
      failure: { code: 'unavailable', retry: 'backoff', message: 'the registry is away' },
    })
    // The last word of the try that failed, late.
    tick(id, 'p3', { percentage: 61, current: 61, total: 100, file_name: 'old', seq: 2, epoch: failed })
    await world.until(id, 'tried again', (operation) => only(operation).attempts === 1 && only(operation).status === 'downloading')
    expect(only(await world.operation(id))).toMatchObject({ percentage: 0, current: 0, file_name: '' })
    const again = epochOf(id)
    expect(again).toBeGreaterThan(failed)
    tick(id, 'p3', { percentage: 5, current: 5, total: 100, seq: 3, epoch: again })
    const seen = await world.until(id, 'moving again', (operation) => only(operation).percentage > 0)
    expect(only(seen)).toMatchObject({ percentage: 5, attempts: 1 })
    expect([60, 61]).toContain(seen.progress)
    // Also where nobody remembers: what is stored says the same.
    await waitFor(
      async () => (await query<{ percentage: number }>('select percentage from intents where op_id = $1', [id]))[0]?.percentage === 5,
      { what: 'the new try to be stored' },
    )
    finish(id)
    expect(only(await world.ended(id))).toMatchObject({ status: 'success', attempts: 1, error: null })
  })

  it('S2.28 B5 may all be lost', async () => {
    const id = await begin('p4')
    expect(only(await world.operation(id))).toMatchObject({ status: 'downloading', percentage: 0, phase: null })
    finish(id)
    expect(only(await world.ended(id))).toMatchObject({ status: 'success', percentage: 100 })
  })

  it('S2.23 S2.37 is nothing without an operation: a command from elsewhere makes no rows', async () => {
    const [before] = await query<{ n: string }>('select count(*) as n from operations')
    const reply = await world.bus.request(backendInstall, { node: one.id }, { backend: backendName('direct') }, { timeoutMs: 60_000 })
    expect(reply).toMatchObject({ success: true })
    await waitFor(
      async () => ((await world.api().get(`/api/nodes/${one.id}`)).body['backends'] as unknown as string[]).includes('direct'),
      { what: 'the inventory' },
    )
    expect(await query('select count(*) as n from operations')).toEqual([before])
    expect((await world.api().get(`/api/nodes/${one.id}/intents`)).body['intents']).not.toContainEqual(
      expect.objectContaining({ backend: 'direct' }),
    )
  })

  it('S2.45 S2.37 S2.26 is shown for upgrades and deletes too, with their nodes', async () => {
    world.publish('p5', '1.0.0')
    await world.ended(await world.install('p5', both()))
    world.publish('p5', '2.0.0')
    for (const start of [() => world.upgrade('p5', both()), () => world.remove('p5', `?node=${one.id}&node=${two.id}`)]) {
      const gate = createGate()
      for (const { installer } of [one, two])
        installer.script.set(backendName('p5'), async (context) => {
          context.onProgress({ phase: 'downloading', fileName: 'layer', current: 1, total: 4 })
          await gate.behaviour(context)
        })
      const id = await start()
      const seen = await world.until(id, 'moving on both', ({ nodes }) => nodes.every(({ percentage }) => percentage === 25))
      expect(seen.nodes.map(({ node_name, status, phase }) => [node_name, status, phase])).toEqual([
        ['a-two', 'downloading', 'downloading'],
        ['b-one', 'downloading', 'downloading'],
      ])
      gate.open()
      expect((await world.ended(id)).nodes.map(({ status, percentage }) => [status, percentage])).toEqual([
        ['success', 100],
        ['success', 100],
      ])
    }
  })
})

describe('old workers', () => {
  it('S2.27 S2.48 a worker that reports nothing until the end: queued, then done, without errors', async () => {
    const gate = Promise.withResolvers<void>()
    const silent = await world.addLegacyWorker('silent', { work: () => gate.promise })
    world.publish('p6', '1.0.0')
    const id = await world.install('p6', { nodes: [silent.id] })
    await waitFor(() => silent.heard.length > 0, { what: 'the request' })
    expect(only(await world.operation(id))).toMatchObject({ status: 'queued', percentage: 0, phase: null, error: null, attempts: 0 })
    gate.resolve()
    expect(only(await world.ended(id))).toMatchObject({ status: 'success', error: null, attempts: 0 })
  })

  it('W14 S2.22 a worker that reports percentages and text: downloading, with the percentage', async () => {
    const gate = Promise.withResolvers<void>()
    const talking = await world.addLegacyWorker('talking', {
      hasProgress: true,
      work: async ({ tick: say }) => {
        say(0, 'layer')
        say(40, 'layer')
        await gate.promise
      },
    })
    world.publish('p7', '1.0.0')
    const id = await world.install('p7', { nodes: [talking.id] })
    const seen = await world.until(id, 'at 40', (operation) => only(operation).percentage === 40)
    expect(only(seen)).toMatchObject({ status: 'downloading', phase: 'downloading', file_name: 'layer', current: 0 })
    gate.resolve()
    expect((await world.ended(id)).state).toBe('succeeded')
  })
})

describe('nodes of an operation', () => {
  it('S2.32 S2.34 S2.35 S2.38 S2.43 S0.17 are all there, sorted by name, through every outcome of each', async () => {
    const gate = createGate()
    one.installer.script.set(backendName('p8'), gate.behaviour)
    two.installer.script.set(backendName('p8'), failing({ code: 'not_found', retry: 'never', message: 'no such layer' }))
    world.publish('p8', '1.0.0')
    const id = await world.install('p8', { nodes: [wire.id, one.id, two.id] })
    const mixed = await world.until(id, 'mixed', ({ nodes }) => nodes[0]?.status === 'error' && nodes[1]?.status === 'downloading')
    expect(mixed.nodes.map(({ node_name }) => node_name)).toEqual(['a-two', 'b-one', 'wire'])
    expect(mixed.nodes[0]).toMatchObject({
      status: 'error',
      error: 'no such layer',
      error_code: 'not_found',
      next_retry_at: null,
      dead: false,
      attempts: 1,
    })
    gate.open()
    finish(id)
    const ended = await world.ended(id)
    expect(ended.nodes.map(({ status }) => status)).toEqual(['error', 'success', 'success'])
    expect(ended).toMatchObject({ state: 'failed', message: 'a-two: no such layer', finished_at: expect.any(String) as string })
    // S2.43: one node is tried again, the others stay as they are.
    two.installer.script.delete(backendName('p8'))
    const again = await world.api().post(`/api/operations/${id}/retry`, { node_id: two.id })
    expect(again).toMatchObject({ status: 202, body: { state: 'running', finished_at: null } })
    const green = await world.ended(id)
    expect(green.nodes.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['success', 0],
      ['success', 0],
      ['success', 0],
    ])
    expect(green.progress).toBe(100)
    expect((await world.api().post(`/api/operations/${id}/retry`, { node_id: two.id })).status).toBe(409)
  })

  it('S2.42 that nothing fits are skipped before anything is sent', async () => {
    world.publish('p9', '1.0.0')
    const arm = await world.addWireWorker('foreign', { arch: 'riscv64' })
    let asked = 0
    arm.bus.serve(backendInstall, { node: arm.id }, () => ((asked += 1), { accepted: true as const }))
    const id = await world.install('p9', { nodes: [arm.id, one.id] })
    const ended = await world.ended(id)
    expect(ended).toMatchObject({
      state: 'succeeded',
      nodes: [{ status: 'success' }, { node_name: 'foreign', status: 'skipped', attempts: 0 }],
    })
    expect(ended.nodes[1]?.message).toMatch(/riscv64/)
    expect(asked).toBe(0)
  })
})

describe('a node', () => {
  const node = async () => (await world.api().get(`/api/nodes/${wire.id}`)).body
  const intents = async () => (await world.api().get(`/api/nodes/${wire.id}/intents`)).body['intents'] as unknown as { backend: string }[]

  it('I25 counts open intents, lists backends, explains each intent, and publishes changes', async () => {
    await using reader = await readEvents(world.api())
    const before = Number((await node())['pending_ops'])
    const id = await begin('q1')
    expect(await node()).toMatchObject({ pending_ops: before + 1 })
    await reader.until(
      'the node to be told',
      ({ event, data }) => event === 'node' && data['id'] === wire.id && data['pending_ops'] === before + 1,
    )
    expect((await intents()).find(({ backend }) => backend === 'q1')).toEqual({
      ...{ backend: 'q1', kind: 'install', state: 'working', generation: expect.any(Number) as number, operation_id: id, attempts: 0 },
      ...{ next_retry_at: null, failure: null, requested_at: expect.stringMatching(/Z$/) as string, finished_at: null, message: '' },
    })
    const failure = { code: 'disk_full' as const, retry: 'never' as const, message: 'no space left' }
    wire.say({ type: 'op.result', op_id: id as never, state: 'failed', epoch: epochOf(id), failure })
    await world.ended(id)
    expect(await node()).toMatchObject({ pending_ops: before })
    await reader.until(
      'the end to be told',
      ({ event, data, id: seq }) => event === 'node' && data['id'] === wire.id && data['pending_ops'] === before && seq !== null,
    )
    expect((await intents()).find(({ backend }) => backend === 'q1')).toMatchObject({
      state: 'failed',
      attempts: 1,
      failure,
      message: 'no space left',
      finished_at: expect.stringMatching(/Z$/) as string,
    })
    wire.say({
      type: 'inventory',
      backends: [
        { name: backendName('q9'), is_system: false, is_meta: false, installed_at: '', gallery_url: '', version: '1', uri: '', digest: '' },
      ],
    })
    await reader.until(
      'its backends',
      ({ event, data }) => event === 'node' && data['id'] === wire.id && JSON.stringify(data['backends']) === '["q9"]',
    )
    expect(await node()).toMatchObject({ backends: ['q9'] })
    wire.say({ type: 'inventory', backends: [] })
    await waitFor(async () => JSON.stringify((await node())['backends']) === '[]', { what: 'an empty inventory' })
  })

  it('that is an agent has no intents', async () => {
    const agent = await world.addWireWorker('agent', { node_type: 'agent' })
    expect((await world.api().get(`/api/nodes/${agent.id}/intents`)).body).toEqual({ intents: [] })
    expect((await world.api().get(`/api/nodes/${agent.id}`)).body).toMatchObject({ backends: [], pending_ops: 0 })
    expect((await world.api().get('/api/nodes/n-nobody/intents')).status).toBe(404)
  })
})
