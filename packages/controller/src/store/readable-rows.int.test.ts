// One controller beside a newer one: rows that only the newer one can read delay no other row.
import { createLog } from '@muster/host'
import { backendInstall, BackendName, ModelName, type OperationId } from '@muster/protocol'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type IntentsWorld, startIntentsWorld, type TestIntents } from '../../test/intents-world.ts'
import { decideRollout, factsOf } from '../rollouts/rollout.pure.ts'

let world: IntentsWorld
let controller: TestIntents
const lines: Record<string, unknown>[] = []
const skipped = (): unknown[] => lines.filter(({ msg }) => String(msg).startsWith('row skipped')).map(({ row }) => row)

beforeAll(async () => {
  const stream = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) }
  world = await startIntentsWorld({ log: createLog({ level: 'warn', format: 'json', stream }) })
  // The constraints of a newer version.
  for (const [table, constraint] of [
    ['intents', 'intents_kind_check'],
    ['loads', 'loads_purpose_check'],
    ['replicas', 'replicas_state_check'],
    ['replicas', 'replica_is_one_case'],
    ['operations', 'operations_kind_check'],
  ] as const)
    await sql`alter table ${sql.table(table)} drop constraint if exists ${sql.ref(constraint)}`.execute(world.db)
  controller = world.startController()
})
afterAll(() => world[Symbol.asyncDispose]())

const generationOf = async (id: OperationId): Promise<number> => {
  const { rows } = await sql<{ generation: number }>`select generation from intents where op_id = ${id}`.execute(world.db)
  return rows[0]?.generation ?? 0
}

it('A12 an intent that only a newer version can read is given back and reported; the others are carried out', async () => {
  const { node, bus } = await world.addNode('mixed')
  await sql`update nodes set draining = true where id = ${node}`.execute(world.db)
  const unknownKind = await world.submit('backend.install', node, { backend: 'compacted' })
  const unknownPlan = await world.submit('backend.install', node, { backend: 'signed' })
  const plain = await world.submit('backend.install', node, { backend: 'plain' })
  await sql`update intents set kind = 'compact' where op_id = ${unknownKind}`.execute(world.db)
  await sql`update intents set plan = plan || '{"digest": {"sha512": "0"}}' where op_id = ${unknownPlan}`.execute(world.db)
  const sent: string[] = []
  bus.serve(backendInstall, { node }, ({ backend }) => {
    sent.push(backend)
    return { success: true as const }
  })
  await sql`update nodes set draining = false where id = ${node}`.execute(world.db)
  controller.operations.wake()
  await world.until(plain, controller, 'done', ({ state }) => state === 'succeeded')
  expect(sent).toEqual(['plain'])
  const { rows } =
    await sql<object>`select backend, state, attempts, holder from intents where backend <> 'plain' order by backend`.execute(world.db)
  expect(rows).toEqual([
    { backend: 'compacted', state: 'waiting', attempts: 0, holder: null },
    { backend: 'signed', state: 'waiting', attempts: 0, holder: null },
  ])
  const names = [
    `intent ${await generationOf(unknownKind)} for compacted on mixed`,
    `intent ${await generationOf(unknownPlan)} for signed on mixed`,
  ]
  expect(skipped()).toEqual(expect.arrayContaining(names))
  expect(new Set(skipped()).size).toBe(skipped().length)
  expect(await world.operation(unknownKind, controller)).toMatchObject({
    state: 'running',
    nodes: [{ status: 'queued', message: 'unsupported by this version of the controller; a newer controller continues it' }],
  })
  expect((await world.store.operations.history(unknownPlan)).map(({ type }) => type)).toContain('unsupported_by_this_version')
  expect((await world.store.intents.findByBackend(BackendName.parse('signed'))).rows).toEqual([])
  // An administrator may still replace it.
  const again = await world.submit('backend.install', node, { backend: 'signed' })
  await world.until(again, controller, 'done', ({ state }) => state === 'succeeded')
})

it('A12 an unreadable load is given back, and nothing is decided about its model', async () => {
  const config = (name: string) => JSON.stringify({ name, backend: 'llama' })
  for (const name of ['new', 'old'])
    await sql`insert into models (name, config, revision, backend) values (${name}, ${config(name)}::jsonb, 'r', 'llama')`.execute(world.db)
  await sql`insert into loads (model, purpose, ordinal, revision, state, next_at) values ('new', 'mirror', 0, 'r', 'waiting', now() - interval '1 s'),
    ('old', 'serve', 0, 'r', 'waiting', now())`.execute(world.db)
  const { loads } = world.store
  const claim = async () => (await loads.claim({ holder: 'c', leaseMs: 60_000, limit: 10 })).rows.map(({ load }) => load.model)
  expect(await claim()).toEqual(['old'])
  expect(await claim()).toEqual([])
  const { rows } = await sql<object>`select holder, lease_until from loads where model = 'new'`.execute(world.db)
  expect(rows).toEqual([{ holder: null, lease_until: null }])
  // It does not keep the loop awake.
  expect(await loads.nextDue()).toBeGreaterThan(30_000)
  const sets = await loads.listSets()
  expect({ models: sets.rows.map(({ load }) => load.model), unreadable: [...sets.unreadable] }).toEqual({
    models: ['old'],
    unreadable: ['new'],
  })
  expect((await world.store.models.list()).map(({ name, loads: shown }) => [name, shown.length])).toEqual([
    ['new', 0],
    ['old', 1],
  ])
  await sql`update models set config = config || '{"quantum": true}' where name = 'new'`.execute(world.db)
  expect((await loads.models()).map(({ name }) => name)).toEqual(['old'])
  expect((await world.store.models.list()).map(({ name }) => name)).toEqual([ModelName.parse('old')])
})

it('A12 unreadable replicas, operations and rollouts are left out, and the others are read', async () => {
  const { node } = await world.addNode('listed')
  await sql`insert into replicas (id, model, revision, node_id, backend, config, state, ready_at, slot) values
    ('r-new', 'tiny', 'r', ${node}, 'llama', '{}', 'frozen', now(), 1), ('r-old', 'tiny', 'r', ${node}, 'llama', '{}', 'ready', now(), 2)`.execute(
    world.db,
  )
  expect((await world.store.replicas.listOfModel('tiny')).map(({ id }) => id)).toEqual(['r-old'])
  await sql`update nodes set draining = true where id = ${node}`.execute(world.db)
  const [first, second] = [
    await world.submit('backend.install', node, { backend: 'one' }),
    await world.submit('backend.install', node, { backend: 'two' }),
  ]
  await sql`update operations set kind = 'backend.compact' where id = ${first}`.execute(world.db)
  const listed = (await world.store.operations.list('active')).map(({ id }) => id)
  expect(listed).not.toContain(first)
  expect(listed).toContain(second)
  for (const id of [first, second])
    await sql`insert into rollouts (operation_id, backend, spec, state, rings) values (${id}, 'x', ${
      id === first ? '{"waves": 3}' : '{"canary": 1, "maxParallel": 1, "minHealthyMs": 0}'
    }::jsonb, 'running', 1)`.execute(world.db)
  const look = (id: OperationId) => world.store.rollouts.advance(id, (rollout) => decideRollout(factsOf(rollout)))
  expect(await look(first)).toBeNull()
  expect(await look(second)).not.toBeNull()
  expect(skipped()).toEqual(expect.arrayContaining([`replica r-new`, `operation ${first}`, `rollout ${first}`]))
})
