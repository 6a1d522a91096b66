// Where a load goes: to an install that is under way, not to another node because a source failed, and back to a node that
// returned. On a real database and bus.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { BackendName, type Failure, ModelName, OperationId, type ReplicaId } from '@muster/protocol'
import { parseGallery } from '@muster/source'
import { boundMs, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { startLoadsWorld, type LoadsWorld, type ModelWorker, type TestLoads } from '../../test/loads-world.ts'
import { nothingToFetch } from '../store/intent-rows.ts'

let world: LoadsWorld
const running: TestLoads[] = []
const controller = async (...options: Parameters<LoadsWorld['startController']>): Promise<TestLoads> => {
  const started = await world.startController(...options)
  running.push(started)
  return started
}

beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(async () => {
  for (const each of running.splice(0)) await each.stop()
  await world.clear()
})
afterAll(() => world[Symbol.asyncDispose]())

let submitted = 0

/** Submits an install of `llama` on the node from a URI that no gallery lists. */
async function beginInstall({ id: nodeId }: ModelWorker): Promise<OperationId> {
  submitted += 1
  const id = OperationId.parse(`op-install-${submitted}`)
  const plan = { ...nothingToFetch, uri: 'oci://registry.test/llama:1' }
  const nodes = [{ nodeId, nodeName: nodeId, plan, isCurrent: false }]
  const backend = BackendName.parse('llama')
  await world.store.submissions.submit([{ id, kind: 'backend.install', backend, requestedBy: 'test', options: {}, nodes }], null)
  return id
}

/** The node reports the end of its install. */
async function endInstall({ id }: ModelWorker): Promise<void> {
  await sql`update intents set state = 'applied', finished_at = now(), next_at = null where node_id = ${id}`.execute(world.db)
  await sql`update operation_nodes set status = 'success', finished_at = now() where node_id = ${id}`.execute(world.db)
}

const failInstall = ({ id }: ModelWorker, failure: Failure) =>
  sql`update intents set attempts = 1, next_at = now() + interval '1 hour', last_failure = ${JSON.stringify(failure)}::jsonb
    where node_id = ${id}`.execute(world.db)

describe('a model whose backend no gallery offers', () => {
  it('waits for an install that is under way, and starts when it ends', async () => {
    const { loads, taken } = await controller()
    await world.addWorker('a', { backends: [] })
    const worker = await world.addWorker('b', { backends: [] })
    const installId = await beginInstall(worker)
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    const { load } = await world.untilState('tiny', 'installing')
    expect(load).toMatchObject({ nodeId: worker.id, installId })
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading', loading: { state: 'installing', node: 'b' } })
    await endInstall(worker)
    loads.noteInstalled([worker.id])
    await worker.untilLoads(1)
    worker.ready()
    await world.untilState('tiny', 'ready')
    expect(taken.filter(({ event }) => event.type === 'failed')).toEqual([])
  })

  it('waits for an install on a node that is away, and has not failed for good', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('a', { backends: [] })
    await beginInstall(worker)
    await world.setPulse(worker.id, 'silent')
    await loads.cold.ensure(await world.addModel('tiny'))
    const { load } = await world.untilState('tiny', 'failed')
    expect(load).toMatchObject({ failure: { code: 'no_capacity', retry: 'backoff' }, nextAt: expect.any(Number) })
  })

  it('shows the failure of an install that is retried, and is retried too', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('a', { backends: [] })
    await beginInstall(worker)
    await failInstall(worker, { code: 'unavailable', retry: 'backoff', message: 'cannot resolve registry.test', source: 'backend' })
    await loads.cold.ensure(await world.addModel('tiny'))
    const { load } = await world.untilState('tiny', 'failed')
    expect(load).toMatchObject({ failure: { message: 'cannot resolve registry.test' }, nextAt: expect.any(Number), nodeId: worker.id })
    await endInstall(worker)
    await worker.untilLoads(1)
  })

  it('is tried again when the backend arrives, also after it failed for good and every controller was killed', async () => {
    const first = await controller()
    const worker = await world.addWorker('a', { backends: [] })
    await first.loads.cold.ensure(await world.addModel('tiny'))
    const { load } = await world.untilState('tiny', 'failed')
    expect(load).toMatchObject({ failure: { code: 'not_found', source: 'backend' }, nextAt: null })
    first.kill()
    await beginInstall(worker)
    await endInstall(worker)
    await controller()
    await waitFor(() => worker.loads.length > 0, { what: 'another try', timeoutMs: boundMs(5_000) })
    worker.ready()
    await world.untilState('tiny', 'ready')
  })
})

describe('a source that fails', () => {
  /** A controller whose gallery offers the backend, and the nodes on which loads had it installed. */
  async function offeringController() {
    const installs: string[] = []
    const byId = new Map<string, ModelWorker>()
    const parsed = parseGallery('- {name: llama, uri: "registry.test/llama:1"}')
    await controller({
      catalogue: async () => ({ galleries: [{ name: 'main', url: '', ...parsed }], problems: [] }),
      submissions: {
        install: async ({ nodes: [nodeId = ''] = [] }) => {
          installs.push(nodeId)
          const worker = byId.get(nodeId)
          if (worker === undefined) throw new Error(`there is no worker ${nodeId}`)
          return { id: await beginInstall(worker) } as never
        },
        submit: async () => true,
      },
    })
    const add = async (name: string, backends: readonly string[]): Promise<ModelWorker> => {
      const worker = await world.addWorker(name, { backends })
      byId.set(worker.id, worker)
      return worker
    }
    return { installs, a: await add('a', []), b: await add('b', ['llama']), c: await add('c', []) }
  }
  const makeDue = () => sql`update loads set next_at = now() where state = 'failed'`.execute(world.db)
  const unresolved = { code: 'unavailable', retry: 'backoff', message: 'cannot resolve files.test' } as const

  it('is no reason to move to another node and install the backend there', async () => {
    const { installs, b } = await offeringController()
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    for (const nth of [1, 2, 3]) {
      b.fail({ ...unresolved, source: 'files' }, await b.untilLoads(nth))
      await waitFor(async () => (await world.rowOf('tiny'))?.load.attempts === nth, { what: `failure ${nth}` })
      await makeDue()
      await waitFor(() => b.loads.length > nth || installs.length > 0, { what: 'the next try' })
      expect(installs).toEqual([])
    }
  })

  it('is told apart from a failure of the node, which is a reason to move', async () => {
    const { installs, a, b } = await offeringController()
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    b.fail(unresolved, await b.untilLoads(1))
    await world.untilState('tiny', 'failed')
    await makeDue()
    await world.untilState('tiny', 'installing')
    expect(installs).toEqual([a.id])
  })

  it('while the backend is installed is no reason to install it elsewhere', async () => {
    const { installs, a, b } = await offeringController()
    await world.setPulse(b.id, 'silent')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    for (const nth of [1, 2, 3]) {
      await world.untilState('tiny', 'installing')
      await failInstall(a, { ...unresolved, source: 'backend' })
      await sql`update loads set next_at = now() where state = 'installing'`.execute(world.db)
      await waitFor(async () => (await world.rowOf('tiny'))?.load.attempts === nth, { what: `failure ${nth}` })
      await makeDue()
      const { load } = await world.untilState('tiny', 'installing')
      expect(load).toMatchObject({ nodeId: a.id })
    }
    expect(new Set(installs)).toEqual(new Set([a.id]))
  })
})

describe('replicas on one node', () => {
  const stateOf = async (id: ReplicaId): Promise<string | undefined> => (await world.store.replicas.find(id))?.state
  /** As if the last change of every node was a while ago. */
  const calmDown = () => sql`update changes set at = at - interval '2 minutes' where kind = 'node'`.execute(world.db)

  /** Two replicas on `a`, and `b`, which had one of them and is back. */
  async function returnedNode(): Promise<{ a: ModelWorker; b: ModelWorker }> {
    const first = await controller()
    const [a, b] = [await world.addWorker('a'), await world.addWorker('b')]
    await world.addModel('tiny', { scheduling: { min_replicas: 2, max_replicas: 2 } })
    for (const worker of [a, b]) worker.ready(await worker.untilLoads(1))
    await Promise.all([0, 1].map((ordinal) => world.untilState('tiny', 'ready', { ordinal })))
    await world.setPulse(b.id, 'silent')
    a.ready(await a.untilLoads(2))
    await Promise.all([0, 1].map((ordinal) => world.untilState('tiny', 'ready', { ordinal })))
    await world.setPulse(b.id, 'present')
    await waitFor(() => b.unloads.length === 1 && b.processes.size === 0, { what: 'the replica that is not needed to end' })
    await waitFor(async () => (await world.store.replicas.listOfNode(b.id)).length === 0, { what: 'its exit to be recorded' })
    await first.stop()
    return { a, b }
  }

  it('are spread again when a node returns: the new one is admitted before one of them drains', async () => {
    const { a, b } = await returnedNode()
    await calmDown()
    await controller()
    const load = await b.untilLoads(2)
    b.ready(load)
    await world.untilState('tiny', 'ready', { ordinal: 2 })
    expect(a.unloads).toEqual([])
    await world.pass(load.replica_id)
    const [gone] = await waitFor(() => (a.unloads.length > 0 ? a.unloads : null), { what: 'one of the two to drain' })
    await waitFor(async () => gone !== undefined && (await stateOf(gone)) === 'exited', { what: 'its end' })
    expect(new Set((await world.store.loads.listOfModel('tiny')).rows.map(({ load: each }) => each.state))).toEqual(new Set(['ready']))
    const live = (await world.store.replicas.listOfModel('tiny')).filter(({ state }) => state === 'ready')
    expect(live.map(({ nodeName }) => nodeName).toSorted()).toEqual(['a', 'b'])
    expect(b.unloads).not.toContain(load.replica_id)
  })

  it('stay where they are while the node that returned has changed a moment ago', async () => {
    const { a, b } = await returnedNode()
    const { taken } = await controller()
    const other = await world.addModel('other', { scheduling: { min_replicas: 1 } })
    await waitFor(() => taken.some(({ from }) => from.load.model === other), { what: 'a comparison of all models' })
    expect((await world.store.loads.listOfModel('tiny')).rows).toHaveLength(2)
    expect([a.unloads, b.loads.filter(({ model }) => model === 'tiny')]).toEqual([[], [b.loads[0]]])
  })

  it('stay when the new one does not start, and nothing ends for it', async () => {
    const { a, b } = await returnedNode()
    await calmDown()
    await controller()
    b.fail({ code: 'internal', retry: 'backoff', message: 'CUDA error' }, await b.untilLoads(2))
    await waitFor(async () => (await world.store.loads.listOfModel('tiny')).rows.length === 2, { what: 'the new load to end' })
    await calmDown()
    expect((await world.store.placement.spreadFacts(ModelName.parse('tiny'))).get(b.id)).toMatchObject({
      ...{ hasReplica: false, failedMs: expect.any(Number) },
    })
    expect(a.unloads).toEqual([])
  })
})
