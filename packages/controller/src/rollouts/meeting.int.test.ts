// A rollout and others who write at the same moment, on a real database.
import { waitFor } from '@muster/testkit'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { startRolloutWorld, type RolloutWorld } from '../../test/rollout-world.ts'

let world: RolloutWorld
beforeAll(async () => void (world = await startRolloutWorld()))
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(() => world.clear())

const untilBlocked = () =>
  waitFor(
    async () => {
      const { rows } = await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(
        world.db,
      )
      return rows.length > 0
    },
    { what: 'somebody waits for a lock' },
  )

it('a node whose intent is applied while its rollout ends is done, because no later step would prove it', async () => {
  await world.addNode('a')
  const id = await world.upgrade(['a'])
  await world.send()
  let done = Promise.resolve()
  await world.db.transaction().execute(async (tx) => {
    await sql`update rollouts set state = 'cancelled', finished_at = now() where operation_id = ${id}`.execute(tx)
    done = world.done('a')
    await untilBlocked()
  })
  await done
  expect(await world.operation(id)).toMatchObject({ state: 'succeeded', nodes: [{ status: 'success' }] })
})

it('a rollout that ends settles nodes that are still to be proven', async () => {
  for (const name of ['a', 'b']) await world.addNode(name)
  const id = await world.upgrade(['a', 'b'], { canary: 2 })
  await world.send()
  await world.done('a')
  // Decided on what was so before.
  await world.store.rollouts.advance(id, () => [{ do: 'end', end: 'cancelled' }])
  expect(await world.shown(id)).toBe('a:success b:downloading')
  await world.done('b')
  expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
})

it('a cancellation that meets another transaction in a circle is tried again as a whole', async () => {
  await world.addNode('a')
  const id = await world.upgrade(['a'])
  let cancelled: Promise<unknown> = Promise.resolve()
  await world.db.transaction().execute(async (tx) => {
    // This one has patience, so the other one is given up.
    await sql`set local deadlock_timeout = '60s'`.execute(tx)
    await sql`select from operations where id = ${id} for update`.execute(tx)
    cancelled = world.store.reopen.cancel(id, null)
    await untilBlocked()
    await sql`select from intents where op_id = ${id} for update`.execute(tx)
  })
  expect(await cancelled).toBe('done')
  expect(await world.operation(id)).toMatchObject({ state: 'cancelled' })
})

it('a cancellation does not cancel a rollback', async () => {
  for (const name of ['a', 'b']) await world.addNode(name)
  const id = await world.upgrade(['a', 'b'])
  await world.send()
  await world.done('a')
  await world.addReplica('a', '2', { checked: 'failed' })
  await world.look(id)
  expect(await world.store.reopen.cancel(id, null)).toBe('done')
  expect(await world.send()).toEqual(['a'])
  await world.done('a')
  expect(await world.look(id)).toEqual(['returned a', 'end'])
  expect(await world.row(id, 'a')).toMatchObject({ status: 'error', error_code: 'rolled_back' })
})
