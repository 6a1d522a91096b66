// Loads on a real database and bus: several controllers, and workers that do what a test says.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { OperationId, ReplicaId, stepLoad } from '@muster/protocol'
import { boundMs, waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { startLoadsWorld, type LoadsWorld, type ModelWorker, type TestLoads } from '../../test/loads-world.ts'

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

describe('a cold model', () => {
  it('goes from waiting to starting to ready', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading', loading: { state: 'pending' } })
    await loads.cold.ensure(tiny)
    const load = await worker.untilLoads(1)
    expect(load).toMatchObject({ model: 'tiny', revision: 'rev-1', backend: 'llama', slot: 0, epoch: 1 })
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading', loading: { state: 'staging', node: 'one' } })
    worker.ready()
    const { load: row } = await world.untilState('tiny', 'ready')
    expect(row).toMatchObject({ replicaId: load.replica_id, nodeId: worker.id, attempts: 0 })
    expect(await loads.cold.status(tiny)).toEqual({ kind: 'ready' })
    expect(await world.store.replicas.listOfModel('tiny')).toMatchObject([
      { id: load.replica_id, state: 'ready', isReachable: true, ordinal: 0 },
    ])
    expect(worker.loads).toHaveLength(1)
  })

  it('G1 I15 S1.15 has one load, however many requests arrive on three controllers', async () => {
    const three = [await controller(), await controller(), await controller()]
    const workers = [await world.addWorker('one'), await world.addWorker('two')]
    const tiny = await world.addModel('tiny')
    await Promise.all(Array.from({ length: 200 }, async (_, index) => await three[index % 3]?.loads.cold.ensure(tiny)))
    const worker = await waitFor(() => workers.find(({ loads }) => loads.length > 0), { what: 'a load' })
    worker.ready()
    await world.untilState('tiny', 'ready')
    await Promise.all(three.map((each) => each.loads.cold.ensure(tiny)))
    expect(workers.flatMap(({ loads }) => loads)).toHaveLength(1)
    expect(await world.store.replicas.listOfModel('tiny')).toHaveLength(1)
  })

  it('that fails shows the real cause and the next attempt on every controller', async () => {
    const [one, two] = [await controller(), await controller()]
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    await one.loads.cold.ensure(tiny)
    await worker.untilLoads(1)
    worker.fail({ code: 'internal', retry: 'backoff', message: 'out of memory while loading tiny.gguf' })
    await world.untilState('tiny', 'failed')
    for (const { loads } of [one, two]) {
      await loads.cold.ensure(tiny)
      expect(await loads.cold.status(tiny)).toMatchObject({
        kind: 'failed',
        failure: { code: 'internal', message: 'out of memory while loading tiny.gguf', attempts: 1, next_retry_at: expect.any(String) },
      })
    }
    expect(worker.loads).toHaveLength(1)
  })

  it('G15 without a node that fits fails at once with the reason, and loads when there is one', async () => {
    const { loads } = await controller()
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.status(tiny)).toEqual({ kind: 'no_capacity', message: expect.stringContaining('there is none yet') })
    const worker = await world.addWorker('one')
    await worker.untilLoads(1)
    worker.ready()
    await world.untilState('tiny', 'ready')
  })

  it('whose only node is on its way waits for the node instead of failing', async () => {
    const { loads, taken } = await controller()
    const worker = await world.addWorker('one')
    await world.setPulse(worker.id, 'new')
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    await waitFor(() => taken.some(({ event }) => event.type === 'looked'), { what: 'a round of the load' })
    expect(await loads.cold.status(tiny)).toMatchObject({ kind: 'loading' })
    await world.setPulse(worker.id, 'present')
    await worker.untilLoads(1)
    worker.ready()
    await world.untilState('tiny', 'ready')
    expect(taken.filter(({ event }) => event.type === 'failed')).toEqual([])
  })
})

it('S4.10 without a model there is no load info, and nothing is tried; with one no earlier request is needed', async () => {
  const { loads, taken } = await controller()
  const worker = await world.addWorker('one')
  // Left behind, or never there: what is started is started from the model's own configuration alone.
  await world.store.loadInfo.save({ model: 'ghost', backend: 'llama', revision: 'rev-1', options: {} })
  for (const name of ['ghost', 'nobody'])
    expect(await loads.cold.ensure(name)).toMatchObject({
      kind: 'failed',
      failure: { code: 'not_found', message: expect.stringContaining('no load info'), next_retry_at: null, attempts: 0 },
    })
  expect((await world.store.loads.listSets()).rows).toEqual([])
  expect(await world.store.loads.nextDue()).toBeNull()
  await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
  await worker.untilLoads(1)
  expect(new Set(taken.map(({ from }) => from.load.model))).toEqual(new Set(['tiny']))
  expect(worker.loads.map(({ model }) => model)).toEqual(['tiny'])
})

describe('S4.12 the parameters of a load are stored', () => {
  const ways: [string, (found: { worker: ModelWorker; replica: ReplicaId }) => Promise<unknown>][] = [
    ['when its process exits', async ({ worker, replica }) => worker.exit(replica, { exit_code: 1 })],
    ['when it is stopped by hand', () => world.setModel('tiny', { isUnloaded: true })],
    ['when its node is silent', ({ worker }) => world.setPulse(worker.id, 'silent')],
    ['when its node is removed', ({ worker }) => world.store.nodes.remove(worker.id)],
    [
      'when it is not in a heartbeat any more',
      async ({ worker, replica }) => {
        worker.processes.delete(replica)
        await sql`update replicas set ready_at = now() - interval '1 minute' where id = ${replica}`.execute(world.db)
        worker.beat()
      },
    ],
    ['when it is revised', () => world.addModel('tiny', { scheduling: { min_replicas: 0 } }, 'rev-2')],
  ]
  it.each(ways)('%s', async (_, end) => {
    await controller()
    const found = await up('tiny')
    await world.store.loadInfo.saveNew()
    await end(found)
    await waitFor(async () => (await world.rowOf('tiny'))?.load.state !== 'ready', { what: 'it to be gone' })
    await world.store.replicas.prune({ keepMs: 0, keepOfModel: 0 })
    expect(await world.store.loadInfo.find('tiny')).toMatchObject({ backend: 'llama', revision: 'rev-1' })
  })
})

/** A model that is up, and the worker that has it. */
async function up(name: string, more: Record<string, unknown> = {}): Promise<{ worker: ModelWorker; replica: ReplicaId }> {
  const worker = await world.addWorker(`worker of ${name}`)
  await world.addModel(name, { scheduling: { min_replicas: 1 }, ...more })
  const { replica_id: replica } = await worker.untilLoads(1)
  worker.ready()
  await world.untilState(name, 'ready')
  return { worker, replica }
}
const replicaOf = async (id: ReplicaId) => await world.store.replicas.find(id)
const untilReplica = (id: ReplicaId, state: string) =>
  waitFor(async () => (await replicaOf(id))?.state === state, { what: `${id} to be ${state}` })

describe('desired replicas', () => {
  it('S1.16 S4.9 W35 start without a request, all ordinals at once and on different nodes', async () => {
    // After everything was stopped: the last load info is stored, and nothing runs.
    await world.store.loadInfo.save({ model: 'tiny', backend: 'llama', revision: 'rev-1', options: {} })
    await controller()
    const workers = [await world.addWorker('one'), await world.addWorker('two')]
    await world.addModel('tiny', { scheduling: { min_replicas: 2, max_replicas: 2 } })
    const [one, two] = await Promise.all(workers.map((worker) => worker.untilLoads(1)))
    expect([one?.slot, two?.slot]).toEqual([0, 0])
    for (const worker of workers) worker.ready()
    await Promise.all([world.untilState('tiny', 'ready'), world.untilState('tiny', 'ready', { ordinal: 1 })])
    expect(workers.flatMap(({ loads }) => loads)).toHaveLength(2)
  })

  it('W16 end when the model is unloaded, those processes and no others', async () => {
    await controller()
    const kept = await up('kept')
    const { worker, replica } = await up('tiny')
    const other = kept.worker.loads.length + worker.loads.length
    await world.setModel('tiny', { isUnloaded: true })
    await untilReplica(replica, 'exited')
    expect([...worker.unloads, ...kept.worker.unloads]).toEqual([replica])
    expect(await world.rowOf('tiny')).toBeNull()
    expect(await replicaOf(kept.replica)).toMatchObject({ state: 'ready' })
    expect(kept.worker.loads.length + worker.loads.length).toBe(other)
  })

  it('are removed after a long time without requests', async () => {
    const { loads } = await controller({ settings: { opStallTimeout: 4_000, reconcileInterval: 200, idleScaleDown: 600 } })
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    const { replica_id: replica } = await worker.untilLoads(1)
    // G3 A load that takes longer than that is not idle, though nobody waits for it any more.
    await sql`update models set used_at = now() - interval '1 hour'`.execute(world.db)
    await waitFor(async () => (await world.store.loads.forgetIdle(1)).length === 0, { what: 'it to be left alone' })
    expect(await world.rowOf('tiny')).toMatchObject({ load: { state: 'starting' } })
    worker.ready()
    await untilReplica(replica, 'exited')
    expect(worker.unloads).toEqual([replica])
  })
})

describe('a process that exits', () => {
  it('F3 is replaced at once by another one with another id, and then with a pause', async () => {
    const { taken } = await controller()
    const { worker, replica } = await up('tiny')
    worker.exit(replica, { exit_code: 137, last_lines: ['CUDA error'] })
    const second = await worker.untilLoads(2)
    expect(second.replica_id).not.toBe(replica)
    expect(await replicaOf(replica)).toMatchObject({ state: 'exited' })
    worker.ready(second)
    await world.untilState('tiny', 'ready')
    worker.exit(second.replica_id, { signal: 'SIGKILL', last_lines: ['CUDA error'] })
    const { load } = await world.untilState('tiny', 'failed')
    expect(load).toMatchObject({ attempts: 2, failure: { message: expect.stringContaining('SIGKILL; its last lines: CUDA error') } })
    expect(taken.filter(({ to }) => to !== 'gone' && to.state === 'failed')).toHaveLength(1)
    expect(worker.loads).toHaveLength(2)
  })

  it('is replaced soon each time when its revision ran steadily before, also when it ends while it loads', async () => {
    await controller()
    const { worker, replica } = await up('tiny')
    await sql`update replicas set ready_at = now() - interval '2 minutes' where id = ${replica}`.execute(world.db)
    worker.exit(replica, { signal: 'SIGKILL' })
    const second = await worker.untilLoads(2)
    worker.ready(second)
    await world.untilState('tiny', 'ready')
    worker.exit(second.replica_id, { signal: 'SIGKILL' })
    const pauses: number[] = []
    const notePause = async (attempts: number): Promise<void> => {
      const { load } = await waitFor(
        async () => {
          const row = await world.rowOf('tiny')
          return row?.load.state === 'failed' && row.load.attempts === attempts ? row : null
        },
        { what: `failure ${attempts}` },
      )
      if (load.state === 'failed') pauses.push((load.nextAt ?? Infinity) - load.failedAt)
      await sql`update loads set next_at = now()`.execute(world.db)
    }
    await notePause(2)
    worker.exit((await worker.untilLoads(3)).replica_id, { signal: 'SIGKILL' })
    await notePause(3)
    worker.fail({ code: 'unavailable', retry: 'backoff', message: 'its process ended before it was ready' }, await worker.untilLoads(4))
    await notePause(4)
    expect(pauses).toEqual([1_000, 4_000, 8_000])
  })

  it('while it loads is the failure of the load', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    const { replica_id: replica } = await worker.untilLoads(1)
    worker.exit(replica, { exit_code: 1, last_lines: ['no such file: tiny.gguf'] })
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.status(tiny)).toMatchObject({ failure: { message: expect.stringContaining('no such file: tiny.gguf') } })
  })
})

describe('a load that cannot heal', () => {
  it('wrong hash: is not tried again until there is a new revision', async () => {
    const { loads } = await controller()
    const worker = await world.addWorker('one')
    const tiny = await world.addModel('tiny')
    await loads.cold.ensure(tiny)
    await worker.untilLoads(1)
    worker.fail({ code: 'integrity', retry: 'never', message: 'tiny.gguf has another sha256' })
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.ensure(tiny)).toMatchObject({ kind: 'failed', failure: { code: 'integrity', next_retry_at: null } })
    await world.setModel('tiny', { asked: 0 })
    await world.addWorker('two')
    expect(await loads.cold.ensure(tiny)).toMatchObject({ kind: 'failed', failure: { code: 'integrity' } })
    expect(worker.loads).toHaveLength(1)
    await world.addModel('tiny', {}, 'rev-2')
    await waitFor(async () => (await world.rowOf('tiny'))?.load.revision === 'rev-2', { what: 'the new revision' })
  })

  it('unknown backend: the reason names it and the offered ones', async () => {
    const { loads } = await controller()
    await world.addWorker('one')
    const tiny = await world.addModel('tiny', { backend: 'nonesuch' })
    await loads.cold.ensure(tiny)
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.status(tiny)).toMatchObject({
      kind: 'failed',
      failure: { code: 'not_found', message: expect.stringContaining('no gallery offers nonesuch'), next_retry_at: null },
    })
  })
})

describe('a report that cannot be recorded', () => {
  /** The database refuses every change of that replica until it is released. */
  async function refuse(replica: ReplicaId): Promise<AsyncDisposable> {
    await sql`create function refuse() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$`.execute(world.db)
    await sql`create trigger refuse before update on replicas for each row when (new.id = ${sql.lit(replica)}) execute function refuse()`.execute(
      world.db,
    )
    return {
      async [Symbol.asyncDispose]() {
        await sql`drop function refuse cascade`.execute(world.db)
      },
    }
  }

  it('does not block other events', async () => {
    await controller()
    const [one, two] = [await up('tiny'), await up('small')]
    await using _ = await refuse(one.replica)
    one.worker.exit(one.replica)
    two.worker.exit(two.replica)
    await untilReplica(two.replica, 'exited')
    expect(await replicaOf(one.replica)).toMatchObject({ state: 'ready' })
  })

  it('does not block other reports of heartbeats', async () => {
    await controller()
    const [one, two] = [await up('tiny'), await up('small')]
    await using _ = await refuse(one.replica)
    for (const { worker, replica } of [one, two]) worker.processes.set(replica, 'exited')
    one.worker.beat()
    two.worker.beat()
    await untilReplica(two.replica, 'exited')
    expect(await replicaOf(one.replica)).toMatchObject({ state: 'ready' })
  })

  it('because of a deadlock is recorded at the next attempt', async () => {
    await controller()
    const { replica } = await up('tiny')
    await sql`create sequence tries`.execute(world.db)
    await sql`create function give_up_once() returns trigger language plpgsql as $$ begin
      if nextval('tries') = 1 then raise 'in a circle' using errcode = '40P01'; end if; return new; end $$`.execute(world.db)
    await sql`create trigger give_up_once before update on replicas for each row execute function give_up_once()`.execute(world.db)
    try {
      expect(await world.store.replicas.change({ id: replica, do: 'release' })).toBe(true)
    } finally {
      await sql`drop function give_up_once cascade`.execute(world.db)
      await sql`drop sequence tries`.execute(world.db)
    }
  })
})

describe('lost messages', () => {
  it('a lost replica.ready is in the next heartbeat', async () => {
    await controller({ settings: { opStallTimeout: 600_000, reconcileInterval: 10_000, idleScaleDown: 300_000 } })
    const worker = await world.addWorker('one')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    const load = await worker.untilLoads(1)
    worker.processes.set(load.replica_id, 'ready')
    worker.beat()
    expect((await world.untilState('tiny', 'ready')).load).toMatchObject({ replicaId: load.replica_id })
  })

  it('a lost replica.ready is found by a query', async () => {
    await controller()
    const worker = await world.addWorker('one')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    const load = await worker.untilLoads(1)
    worker.processes.set(load.replica_id, 'ready')
    await world.untilState('tiny', 'ready')
    expect(worker.loads).toHaveLength(1)
  })

  it('a lost exit is in the next heartbeat', async () => {
    await controller()
    const { worker, replica } = await up('tiny')
    worker.processes.delete(replica)
    await waitFor(
      () => {
        worker.beat()
        return worker.loads.length === 2
      },
      { what: 'another replica' },
    )
    expect(await replicaOf(replica)).toMatchObject({ state: 'exited' })
  })

  it('a command without an answer is queried, and sent again under the same ID', async () => {
    await controller({ settings: { opStallTimeout: 60_000, reconcileInterval: 10_000, idleScaleDown: 300_000 } })
    const worker = await world.addWorker('one')
    worker.answer = 'silent'
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    const first = await worker.untilLoads(1)
    worker.answer = 'accept'
    const second = await waitFor(() => worker.loads[1], { what: 'the command again' })
    expect(second).toMatchObject({ replica_id: first.replica_id, op_id: first.op_id, epoch: first.epoch })
    worker.ready(second)
    await world.untilState('tiny', 'ready')
    expect(await world.store.replicas.listOfModel('tiny')).toHaveLength(1)
  })

  it('a stalled load is cancelled, its process ended, and tried again', async () => {
    await controller({ settings: { opStallTimeout: 1_000, reconcileInterval: 10_000, idleScaleDown: 300_000 } })
    const worker = await world.addWorker('one')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    const load = await worker.untilLoads(1)
    const { load: row } = await world.untilState('tiny', 'failed')
    expect(row).toMatchObject({ attempts: 1, failure: { code: 'timeout', message: expect.stringContaining('no sign of life') } })
    await waitFor(() => worker.cancels.includes(load.op_id as never) && worker.unloads.includes(load.replica_id), {
      what: 'it to be called off',
    })
    await untilReplica(load.replica_id, 'exited')
  })

  it('W16 an unknown process is ended, by its ID', async () => {
    await controller()
    const { worker, replica } = await up('tiny')
    const orphan = ReplicaId.parse('r-orphan')
    worker.processes.set(orphan, 'ready')
    worker.beat()
    await waitFor(() => worker.unloads.length > 0, { what: 'it to be told' })
    expect(worker.unloads).toEqual([orphan])
    expect(await replicaOf(replica)).toMatchObject({ state: 'ready' })
  })
})

/** A replica whose node is back, while no controller runs. */
async function released(): Promise<{ worker: ModelWorker; replica: ReplicaId }> {
  const one = await world.startController()
  const found = await up('tiny')
  await world.setPulse(found.worker.id, 'silent')
  await world.untilState('tiny', 'failed')
  await one.stop()
  await world.setPulse(found.worker.id, 'present')
  return found
}

describe('a node', () => {
  it('without responders loses the load to another node, and nothing has failed', async () => {
    const { taken } = await controller()
    const gone = await world.addWorker('a')
    await gone.bus.close()
    const other = await world.addWorker('b', { backends: [] })
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    // The failed command or the search for absent nodes, whichever writes first.
    await waitFor(() => taken.some(({ event }) => ['no_responders', 'node_away'].includes(event.type)), { what: 'the load to leave' })
    // Its worker ended a moment ago, and was not missed yet.
    await waitFor(async () => (await world.store.nodes.find(gone.id))?.answering === 'no', { what: 'that to be noted' })
    await other.upgrade('')
    await waitFor(async () => (await world.rowOf('tiny'))?.load.attempts === 0, { what: 'no attempt' })
    expect(taken.filter(({ event }) => event.type === 'failed' && event.failure.code !== 'no_capacity')).toEqual([])
  })

  it('that falls silent in the middle of a load loses it to another one, and that is no attempt', async () => {
    await controller()
    const one = await world.addWorker('one')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    const first = await one.untilLoads(1)
    const two = await world.addWorker('two')
    await world.setPulse(one.id, 'silent')
    const second = await two.untilLoads(1)
    expect(second.replica_id).not.toBe(first.replica_id)
    two.ready()
    const { load } = await world.untilState('tiny', 'ready')
    expect(load).toMatchObject({ nodeId: two.id, attempts: 0 })
    // On its return what it has is drained: its slot is taken.
    await world.setPulse(one.id, 'present')
    await untilReplica(first.replica_id, 'exited')
    expect(one.unloads).toEqual([first.replica_id])
    expect(two.unloads).toEqual([])
  })

  it('that comes back while its slot is open keeps its replica', async () => {
    const { loads } = await controller()
    const { worker, replica } = await up('tiny')
    await world.setPulse(worker.id, 'silent')
    await world.untilState('tiny', 'failed')
    expect(await loads.cold.status('tiny')).toMatchObject({ kind: 'no_capacity' })
    expect(await replicaOf(replica)).toMatchObject({ state: 'ready', isReachable: false, ordinal: null })
    await world.setPulse(worker.id, 'present')
    const { load } = await world.untilState('tiny', 'ready')
    expect(load).toMatchObject({ replicaId: replica })
    expect(await replicaOf(replica)).toMatchObject({ state: 'ready', isReachable: true, ordinal: 0 })
    expect(worker.loads).toHaveLength(1)
  })

  it('that comes back gets no second replica beside the one that lives there', async () => {
    const { taken } = await controller()
    const { worker, replica } = await up('tiny', { scheduling: { min_replicas: 1, node_selector: { 'node.name': 'worker of tiny' } } })
    worker.answer = 'one_per_slot'
    await world.setPulse(worker.id, 'silent')
    await world.untilState('tiny', 'failed')
    // The task for replicas without a load is busy with a worker that does not answer; the load is due first.
    const other = await up('other', { scheduling: { min_replicas: 1, node_selector: { 'node.name': 'worker of other' } } })
    other.worker.isDeaf = true
    await world.setModel('other', { isUnloaded: true })
    await waitFor(() => other.worker.unloads.length > 0, { what: 'it to be told' })
    await world.setPulse(worker.id, 'present')
    const { load } = await world.untilState('tiny', 'ready', { timeoutMs: boundMs(3_000) })
    expect(load).toMatchObject({ replicaId: replica, attempts: 0, ordinal: 0 })
    expect(await world.store.replicas.listOfModel('tiny')).toMatchObject([{ id: replica, state: 'ready', isReachable: true, ordinal: 0 }])
    expect(worker.loads).toHaveLength(1)
    expect(worker.unloads).toEqual([])
    expect(taken.filter(({ from, event }) => from.load.model === 'tiny' && event.type === 'placed')).toHaveLength(1)
  })

  it('that refuses a load because a process is not quite gone gets it again, and nothing has failed', async () => {
    const worker = await world.addWorker('one')
    worker.answer = 'one_per_slot'
    const gone = ReplicaId.parse('r-gone')
    const { taken } = await controller({
      step: async (name) => {
        if (name !== 'RT.job.placed' || worker.loads.length > 0) return
        worker.processes.set(gone, 'draining')
        await sql`
          insert into replicas (id, model, revision, node_id, backend, config, state, op_id, exited_at, exit)
          values (${gone}, 'tiny', 'rev-1', ${worker.id}, 'llama', '{}'::jsonb, 'exited', 'ld-gone', now(), '{}'::jsonb)`.execute(world.db)
      },
    })
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    await worker.untilLoads(1)
    worker.processes.delete(gone)
    await worker.untilLoads(2)
    worker.ready()
    const { load } = await world.untilState('tiny', 'ready', { timeoutMs: boundMs(3_000) })
    expect(load).toMatchObject({ attempts: 0 })
    expect(taken.map(({ event }) => event.type).filter((type) => type !== 'accepted')).toEqual(['placed', 'slot_taken', 'placed', 'ready'])
  })

  it('that comes back keeps its replica when the slot opened at that very moment', async () => {
    const { worker, replica } = await released()
    expect(await world.store.replicas.change({ id: replica, do: 'drain_surplus', ordinal: null })).toBe(false)
    const { rows, now } = await world.store.loads.listOfModel('tiny')
    const [from] = rows
    if (from === undefined) throw new Error('there is a load')
    const nextId = ReplicaId.parse('r-next')
    const placed = { nodeId: worker.id, opId: OperationId.parse('ld-next'), replicaId: nextId }
    const start = {
      id: nextId,
      do: 'start',
      model: 'tiny',
      revision: 'rev-1',
      ordinal: 0,
      backend: 'llama',
      config: {},
      needsCheck: false,
      ...placed,
    } as const
    const to = stepLoad(from.load, { type: 'placed', ...placed }, { now, chance: 0 })
    if (to === null) throw new Error('it can be placed')
    // The one that lives there is not among those that were known: it is decided again.
    expect(await world.store.loads.apply({ from, to, replicas: [{ ...start, seen: [] }] })).toBe('crowded')
    expect(await world.store.loads.apply({ from, to, replicas: [{ ...start, seen: [replica] }] })).toBe('written')
    expect(await replicaOf(nextId)).toMatchObject({ slot: 1 })
    // A load on the same node may be refused because of it.
    expect(await world.store.replicas.change({ id: replica, do: 'drain_surplus', ordinal: null })).toBe(false)
    await sql`update loads set state = 'ready', next_at = null`.execute(world.db)
    expect(await world.store.replicas.change({ id: replica, do: 'drain_surplus', ordinal: null })).toBe(true)
    // A draining replica is not taken back.
    const retake = { id: replica, do: 'retake', ordinal: 0 } as const
    const found = (await world.rowOf('tiny')) ?? from
    expect(await world.store.loads.apply({ from: found, to: found.load, replicas: [retake] })).toBe('moved')
  })

  it('that is removed in the middle of a load loses it to another one', async () => {
    await controller()
    const one = await world.addWorker('one')
    await world.addModel('tiny', { scheduling: { min_replicas: 1 } })
    await one.untilLoads(1)
    const two = await world.addWorker('two')
    expect(await world.store.nodes.remove(one.id)).toBe(true)
    await two.untilLoads(1)
    two.ready()
    expect((await world.untilState('tiny', 'ready')).load).toMatchObject({ nodeId: two.id })
  })
})

describe('G2 a controller that is killed', () => {
  it('at each step of a load leaves it to another one, which starts no second process', async () => {
    const steps = ['RT.job.claimed', 'RT.job.placed', 'RT.job.mid']
    const releases: (() => void)[] = []
    for (const [index, name] of steps.entries()) {
      const reached = Promise.withResolvers<void>()
      const crashing = await world.startController({
        step: (step) => {
          if (step !== name) return
          reached.resolve()
          return new Promise((_, reject) => releases.push(() => reject(new Error('killed'))))
        },
      })
      await world.addWorker(`one of ${index}`, { labels: { own: String(index) } })
      await world.addModel(`model-${index}`, { scheduling: { min_replicas: 1, node_selector: { own: String(index) } } })
      await reached.promise
      crashing.kill()
    }
    await controller()
    const rows = await Promise.all(steps.map((_, index) => world.untilState(`model-${index}`, 'starting', { timeoutMs: 20_000 })))
    expect(rows.map(({ load }) => load.attempts)).toEqual([0, 0, 0])
    for (const release of releases) release()
    for (const [index] of steps.entries()) {
      const replicas = await world.store.replicas.listOfModel(`model-${index}`)
      expect(replicas).toHaveLength(1)
    }
  })
})
