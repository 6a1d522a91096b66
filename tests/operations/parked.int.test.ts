// Intents for nodes that are away are parked, so that they cost the intents of other nodes nothing; they are resumed
// when their node returns, also when that was missed.
import { administer } from '@muster/testkit'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { startOperationsWorld, type OperationsWorld } from './operations-world.ts'

let world: OperationsWorld
beforeAll(async () => {
  world = await startOperationsWorld({ postgresUrl: inject('postgresUrl'), flags: { 'reconcile-interval': '1s' } })
})
afterAll(() => world[Symbol.asyncDispose]())

const parked = async (): Promise<{ backend: string; is_parked: boolean }[]> =>
  (await administer(world.database.url, (client) => client.query('select backend, is_parked from intents order by generation'))).rows

it('S0.4 S0.37 an intent for a node that is away is parked, and resumed when the node returns', async () => {
  const one = await world.addWorker('one')
  world.publish('alpha', '1')
  world.publish('beta', '1')
  await one.stop()
  await world.untilStatus(one.id, 'offline')
  const first = await world.install('alpha')
  const second = await world.install('beta')
  expect(await parked()).toEqual([
    { backend: 'alpha', is_parked: true },
    { backend: 'beta', is_parked: true },
  ])
  // In the very transaction in which it is back: no sweep is needed.
  const back = await administer(world.database.url, async (client) => {
    await client.query('begin')
    await client.query("update node_pulses set liveness = 'present', answering = 'yes', last_seen_at = now() where node_id = $1", [one.id])
    const { rows } = await client.query('select bool_or(is_parked) as is_parked, bool_and(next_at <= now()) as is_due from intents')
    await client.query('rollback')
    return rows
  })
  expect(back).toEqual([{ is_parked: false, is_due: true }])
  await one.start()
  for (const id of [first, second]) expect(await world.ended(id)).toMatchObject({ state: 'succeeded', nodes: [{ attempts: 0 }] })
})

it('S0.37 an intent that was parked by mistake is resumed by the sweep', async () => {
  // As if the intent had been written while the node changed its status.
  world.publish('gamma', '1')
  await administer(world.database.url, (client) =>
    client.query(`
      create function park_always() returns trigger language plpgsql as $$ begin new.is_parked := true; return new; end $$;
      create trigger park_always before insert on intents for each row execute function park_always()`),
  )
  expect(await world.ended(await world.install('gamma'))).toMatchObject({ state: 'succeeded' })
})
