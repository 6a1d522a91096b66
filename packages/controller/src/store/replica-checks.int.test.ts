// How long a new replica has been checked without an answer decides when it failed.
import { ReplicaId, type NodeId } from '@muster/protocol'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { startLoadsWorld, type LoadsWorld } from '../../test/loads-world.ts'
import type { DueCheck } from './replicas.ts'

let world: LoadsWorld
beforeAll(async () => {
  world = await startLoadsWorld()
})
afterEach(() => world.clear())
afterAll(() => world[Symbol.asyncDispose]())

const holder = 'c-1'
const take = async (): Promise<DueCheck[]> => await world.store.replicaChecks.take({ holder, leaseMs: 8_000, limit: 4 })

/** Ready for ten minutes, and never asked. */
async function addDue(): Promise<NodeId> {
  const { id } = await world.addWorker('one')
  await world.addModel('a')
  await sql`
    insert into replicas (id, model, revision, ordinal, node_id, backend, config, state, ready_at, checked)
    values ('r-a', 'a', 'rev-1', 0, ${id}, 'llama', '{}', 'ready', now() - interval '10 minutes', 'due')`.execute(world.db)
  await sql`
    insert into loads (model, purpose, ordinal, revision, state, node_id, op_id, replica_id, epoch, sign_at)
    values ('a', 'serve', 0, 'rev-1', 'ready', ${id}, 'op-a', 'r-a', 1, now())`.execute(world.db)
  return id
}
const asked = (secondsAgo: number, leftSecondsAgo: number) =>
  sql`
    update replicas set check_since = now() - make_interval(secs => ${secondsAgo}),
      check_until = now() - make_interval(secs => ${leftSecondsAgo})`.execute(world.db)

it('starts its time limit with the first question, however long it waited for its turn', async () => {
  await addDue()
  const [check] = await take()
  expect(check).toMatchObject({ id: 'r-a', elapsedMs: 0 })
})

it('counts from the first question as long as one follows the other', async () => {
  await addDue()
  await take()
  await asked(40, 1)
  expect((await take())[0]?.elapsedMs).toBeGreaterThanOrEqual(40_000)
})

it('starts again after its node was absent, and is not decided meanwhile', async () => {
  const node = await addDue()
  const id = ReplicaId.parse('r-a')
  await take()
  expect(await world.store.replicaChecks.isDue(id)).toBe(true)
  await world.setPulse(node, 'silent')
  expect(await world.store.replicaChecks.isDue(id)).toBe(false)
  await asked(40, 20)
  expect(await take()).toEqual([])
  await world.setPulse(node, 'present')
  expect((await take())[0]?.elapsedMs).toBe(0)
})
