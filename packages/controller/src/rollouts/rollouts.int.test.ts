// Rollouts from submission to end, on a real database.
import { NodeId } from '@muster/protocol'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startRolloutWorld, type RolloutWorld } from '../../test/rollout-world.ts'

let world: RolloutWorld
beforeAll(async () => void (world = await startRolloutWorld()))
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(() => world.clear())

const names = ['a', 'b', 'c']
const addAll = async (): Promise<void> => {
  for (const name of names) await world.addNode(name)
}
/** One node from its command to its proof. */
async function upgradeOn(id: Parameters<RolloutWorld['look']>[0], node: string): Promise<void> {
  expect(await world.send()).toEqual([node])
  await world.done(node)
  await world.moveReplicas(node, '2')
  await world.look(id)
  await world.pass(10_000)
  await world.look(id)
}

describe('a rollout', () => {
  it('S1.6 W9 goes from ring to ring; a node is done when its replicas have moved and stayed well', async () => {
    await addAll()
    const id = await world.upgrade(names)
    expect((await world.operation(id)).nodes.map(({ ring, status, message }) => [ring, status, message])).toEqual([
      [1, 'queued', ''],
      [2, 'queued', 'waiting for ring 2'],
      [3, 'queued', 'waiting for ring 3'],
    ])
    expect(await world.look(id)).toEqual([])
    expect(await world.send()).toEqual(['a'])
    expect(await world.look(id)).toEqual([])

    await world.done('a')
    expect(await world.row(id, 'a')).toMatchObject({ status: 'downloading', phase: 'starting' })
    expect(await world.look(id)).toEqual(['message a'])
    expect(await world.row(id, 'a')).toMatchObject({ message: 'installed; 1 replica (tiny) is still to be moved' })
    await world.moveReplicas('a', '2')
    expect(await world.look(id)).toEqual(['message a', 'watch'])
    expect(await world.row(id, 'a')).toMatchObject({ status: 'downloading', message: 'installed; watching its replicas for 10 s' })
    await world.pass(9_000)
    expect(await world.look(id)).toEqual([])
    expect(await world.send()).toEqual([])
    await world.pass(1_000)
    expect(await world.look(id)).toEqual(['prove a', 'watch', 'enter', 'begin b'])
    expect(await world.operation(id)).toMatchObject({ state: 'running', message: '1 of 3 nodes done' })

    await upgradeOn(id, 'b')
    await upgradeOn(id, 'c')
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded', message: '3 of 3 nodes done' })
    expect(await world.state(id)).toBe('succeeded')
    expect(await world.look(id)).toEqual([])
  })

  it('that is paused begins no further node, is proven where it began, and continues when it is resumed', async () => {
    await addAll()
    const id = await world.upgrade(names)
    expect(await world.store.pauses.control(id, 'pause', 'admin')).toBe('do')
    expect(await world.send()).toEqual([])
    expect(await world.operation(id)).toMatchObject({ state: 'background', message: 'paused; 0 of 3 nodes done' })
    expect(await world.store.pauses.control(id, 'resume', 'admin')).toBe('do')
    expect(await world.send()).toEqual(['a'])
    await world.store.pauses.control(id, 'pause', 'admin')
    await world.done('a')
    await world.moveReplicas('a', '2')
    await world.look(id)
    await world.pass(10_000)
    expect(await world.look(id)).toEqual(['prove a', 'watch'])
    expect(await world.look(id)).toEqual([])
    await world.store.pauses.control(id, 'resume', 'admin')
    expect(await world.look(id)).toEqual(['enter', 'begin b'])
    await upgradeOn(id, 'b')
    await upgradeOn(id, 'c')
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
  })

  it('that fails while it is paused is rolled back', async () => {
    await addAll()
    const id = await world.upgrade(names)
    expect(await world.send()).toEqual(['a'])
    await world.store.pauses.control(id, 'pause', 'admin')
    await world.done('a')
    await world.addReplica('a', '2', { checked: 'failed' })
    expect(await world.look(id)).toContain('return a')
    expect(await world.send()).toEqual(['a'])
  })

  it('upgrades nodes without replicas at once, and makes no rings when no node has any', async () => {
    await addAll()
    await world.addNode('d', { replicas: 0 })
    const id = await world.upgrade([...names, 'd'])
    expect(await world.send()).toEqual(['a', 'd'])
    await world.done('d')
    expect(await world.row(id, 'd')).toMatchObject({ status: 'success', ring: null })

    await world.addNode('e', { replicas: 0 })
    const other = await world.upgrade(['e'])
    expect(await world.send()).toEqual(['e'])
    await world.done('e')
    expect(await world.operation(other)).toMatchObject({ state: 'succeeded' })
    expect(await world.db.selectFrom('rollouts').selectAll().where('operation_id', '=', other).execute()).toEqual([])
  })

  it('several at once: a ring is proven as a whole, and is no longer well when one of it is not', async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await world.addNode(name)
    const id = await world.upgrade(['a', 'b', 'c', 'd', 'e'], { maxParallel: 2, canary: 2 })
    expect(await world.send()).toEqual(['a', 'b'])
    await world.done('a')
    await world.moveReplicas('a', '2')
    expect(await world.look(id)).toEqual(['message a'])
    await world.done('b')
    await world.moveReplicas('b', '2')
    expect(await world.look(id)).toEqual(['message b', 'watch'])
    const late = await world.addReplica('b', '2', { checked: 'due' })
    expect(await world.look(id)).toEqual(['message b', 'watch'])
    await world.pass(60_000)
    expect(await world.look(id)).toEqual([])
    await sql`update replicas set checked = 'passed' where id = ${late}`.execute(world.db)
    expect(await world.look(id)).toEqual(['message b', 'watch'])
    await world.pass(10_000)
    expect(await world.look(id)).toEqual(['prove a', 'prove b', 'watch', 'enter', 'begin c', 'begin d'])
  })

  it('a node without enough memory for two replicas has a note about it, also at the end', async () => {
    await world.addNode('a')
    await sql`insert into models (name, config, revision, backend) values ('tiny', '{"name":"tiny","backend":"llama"}', 'r', 'llama')`.execute(
      world.db,
    )
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    const note = 'recreate: not enough memory for two replicas versions'
    await sql`insert into loads (model, purpose, ordinal, revision, state, next_at, pinned_node_id, note)
      values ('tiny', 'serve', 0, 'r', 'waiting', now(), 'a', ${note})`.execute(world.db)
    await world.moveReplicas('a', '2')
    await world.look(id)
    expect(await world.row(id, 'a')).toMatchObject({ message: `installed; 1 replica (tiny) is still to be moved (${note})` })
    await sql`update loads set state = 'ready', replica_id = 'r', next_at = null`.execute(world.db)
    await world.look(id)
    await world.pass(10_000)
    await world.look(id)
    expect(await world.row(id, 'a')).toMatchObject({ status: 'success', message: note })
  })

  it('a node whose disk is too small for two versions is recreated, with a note about it', async () => {
    await world.addNode('a')
    const id = await world.upgrade(['a'])
    await world.send()
    await world.failed('a', { code: 'disk_full', retry: 'backoff', message: 'too little disk space' })
    expect(await world.look(id)).toEqual([])
    expect(await world.send()).toEqual(['a'])
    expect((await world.intentOf('a')).record.plan.strategy).toBe('recreate')
    await world.done('a')
    await world.moveReplicas('a', '2')
    await world.look(id)
    await world.pass(10_000)
    await world.look(id)
    expect(await world.operation(id)).toMatchObject({
      state: 'succeeded',
      nodes: [{ status: 'success', message: 'recreate: the disk is too small for two versions' }],
    })
  })
})

describe('a ring that fails', () => {
  it('on the canary: no other node begins, the canary returns to its previous version, and shows the reason', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.addReplica('a', '2', { checked: 'failed' })
    expect(await world.look(id)).toEqual(['stop', 'return a', 'withdraw b', 'withdraw c'])
    expect((await world.operation(id)).nodes.map(({ status, message }) => [status, message])).toEqual([
      ['queued', 'returning to v1'],
      ['cancelled', 'rollout stopped'],
      ['cancelled', 'rollout stopped'],
    ])
    expect(await world.send()).toEqual(['a'])
    const { record } = await world.intentOf('a')
    expect(record.plan).toMatchObject({ digest: expect.stringMatching(/:1+$/), version: 'v1', uri: 'oci://h/llama:latest' })
    await world.done('a')
    expect(await world.look(id)).toEqual(['returned a', 'end'])
    const error = 'tiny started on the new version but failed its check'
    expect(await world.operation(id)).toMatchObject({
      ...{ state: 'failed', message: `a: ${error}` },
      nodes: [{ status: 'error', error_code: 'rolled_back', error }, {}, {}],
    })
    expect(await world.state(id)).toBe('failed')
  })

  it('on the second: those that were done return too, also where nothing ran', async () => {
    await addAll()
    await world.addNode('d', { replicas: 0 })
    const id = await world.upgrade([...names, 'd'])
    expect(await world.send()).toEqual(['a', 'd'])
    await world.done('d')
    await world.done('a')
    await world.moveReplicas('a', '2')
    await world.look(id)
    await world.pass(10_000)
    await world.look(id)
    expect(await world.shown(id)).toBe('a:success b:queued c:queued d:success')
    expect(await world.send()).toEqual(['b'])
    await world.failed('b', { message: 'no such layer' })
    expect(await world.look(id)).toEqual(['stop', 'return a', 'withdraw c', 'return d'])
    expect(await world.send()).toEqual(['a', 'd'])
    await world.done('a')
    await world.done('d')
    expect(await world.look(id)).toEqual(['returned a', 'end'])
    const { state, message, nodes } = await world.operation(id)
    expect(state).toBe('failed')
    expect(message).toContain('ring 2 failed on b: no such layer')
    expect(nodes.map((node) => [node.status, node.error_code, node.error])).toEqual([
      ['error', 'rolled_back', 'rolled back: ring 2 failed on b: no such layer'],
      ['error', 'internal', 'no such layer'],
      ['cancelled', null, null],
      ['error', 'rolled_back', 'rolled back: ring 2 failed on b: no such layer'],
    ])
  })

  it('by a process that exits while it is watched', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.moveReplicas('a', '2')
    await world.look(id)
    await sql`update replicas set state = 'exited', exited_at = now(), exit = '{"exit_code":3,"last_lines":["boom"]}'
      where node_id = 'a' and state = 'ready'`.execute(world.db)
    expect(await world.look(id)).toContain('return a')
    expect((await world.intentOf('a')).record.plan.rollback?.error).toContain(
      'tiny exited on the new version: the backend process exited with 3',
    )
  })

  it.each([
    ['that was told to', `{"exit_code":0,"expected":true}`],
    ['without a known reason', `{"reason":"the worker no longer lists the replica"}`],
  ])('not by an exit %s', async (_, exit) => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.moveReplicas('a', '2')
    await sql`update replicas set state = 'exited', exited_at = now(), exit = ${exit}::jsonb where node_id = 'a' and state = 'ready'`.execute(
      world.db,
    )
    expect(await world.look(id)).toEqual(['message a', 'watch'])
  })

  it('by a load that has to be on the node; not when there is only no room for it yet', async () => {
    await addAll()
    await sql`insert into models (name, config, revision, backend) values ('tiny', '{"name":"tiny","backend":"llama"}', 'r', 'llama')`.execute(
      world.db,
    )
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    const fail = (code: string) =>
      sql`
      insert into loads (model, purpose, ordinal, revision, state, pinned_node_id, failure, failed_at) values ('tiny', 'serve', 7, 'r', 'failed', 'a',
        ${JSON.stringify({ code, retry: 'backoff', message: 'because' })}::jsonb, clock_timestamp())
      on conflict (model, purpose, ordinal) do update set failure = excluded.failure`.execute(world.db)
    await fail('no_capacity')
    expect(await world.look(id)).toEqual(['message a'])
    await fail('internal')
    expect(await world.look(id)).toContain('stop')
    expect((await world.intentOf('a')).record.plan.rollback?.error).toBe('tiny failed to start on the new version: because')
  })

  it('cancels running work, and rolls back work that ended first', async () => {
    for (const name of ['a', 'b', 'c']) await world.addNode(name)
    const id = await world.upgrade(['a', 'b', 'c'], { canary: 3 })
    expect(await world.send()).toEqual(['a', 'b', 'c'])
    await world.failed('a')
    expect(await world.look(id)).toEqual(['stop', 'cancel b', 'cancel c'])
    await world.step('b', {
      type: 'cancelled_on_worker',
      epoch: null,
      failure: { code: 'cancelled', retry: 'never', message: 'cancelled' },
    })
    await world.done('c')
    expect(await world.look(id)).toEqual(['return c'])
    expect(await world.send()).toEqual(['c'])
    await world.done('c')
    expect(await world.look(id)).toEqual(['returned c', 'end'])
    expect(await world.shown(id)).toBe('a:error b:cancelled c:error')
  })

  it('a node that cannot be rolled back shows its failure, and the rollout ends', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.addReplica('a', '2', { checked: 'failed' })
    await world.look(id)
    await world.send()
    await world.failed('a', { code: 'integrity', message: 'its files are gone' })
    expect(await world.look(id)).toEqual(['end'])
    expect(await world.row(id, 'a')).toMatchObject({
      ...{ status: 'error', error_code: 'integrity', error: 'the rollback failed: its files are gone' },
    })
  })

  it('shows it too when the previous version of the node is unknown', async () => {
    await world.addNode('a')
    await sql`update nodes set inventory = '[]'`.execute(world.db)
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    await world.addReplica('a', '2', { checked: 'failed' })
    expect(await world.look(id)).toEqual(['stop', 'fail a', 'end'])
    expect((await world.row(id, 'a')).error).toContain('its previous version is unknown')
    expect(await world.operation(id)).toMatchObject({ state: 'failed' })
  })
})

describe('a node that is away', () => {
  it('delays no other node, and is upgraded when it returns', async () => {
    await addAll()
    await world.turn('b', false)
    const id = await world.upgrade(names)
    expect((await world.operation(id)).nodes.map(({ ring }) => ring)).toEqual([1, 2, 2])
    await upgradeOn(id, 'a')
    await upgradeOn(id, 'c')
    expect(await world.state(id)).toBe('succeeded')
    expect(await world.operation(id)).toMatchObject({ state: 'background' })
    expect(await world.row(id, 'b')).toMatchObject({ status: 'queued', message: 'node offline, will retry when healthy' })
    await world.turn('b', true)
    expect(await world.send()).toEqual(['b'])
    await world.done('b')
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
  })

  it('joins the last ring when it is back before that', async () => {
    await addAll()
    await world.turn('b', false)
    const id = await world.upgrade(names)
    await world.turn('b', true)
    await upgradeOn(id, 'a')
    await upgradeOn(id, 'b')
    await upgradeOn(id, 'c')
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
  })

  it('that is the canary leaves its part to the next one', async () => {
    await addAll()
    const id = await world.upgrade(names, { maxParallel: 2 })
    expect(await world.send()).toEqual(['a'])
    await world.turn('a', false)
    expect(await world.look(id)).toEqual(['enter', 'begin b'])
    await world.send()
    await world.done('b')
    await world.addReplica('b', '2', { checked: 'failed' })
    expect(await world.look(id)).toEqual(['stop', 'cancel a', 'return b', 'withdraw c'])
    await world.send()
    await world.done('b')
    expect(await world.look(id)).toEqual(['returned b'])
    expect(await world.state(id)).toBe('returning')
    // It had come to its end there before anybody could tell it.
    await world.turn('a', true)
    await world.done('a')
    expect(await world.look(id)).toEqual(['return a'])
    expect(await world.send()).toEqual(['a'])
    await world.done('a')
    expect(await world.look(id)).toEqual(['returned a', 'end'])
    expect(await world.shown(id)).toBe('a:error b:error c:cancelled')
  })

  it('and has to go back does so on its return; until then its row stays open', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await upgradeOn(id, 'a')
    await world.turn('a', false)
    await world.send()
    await world.failed('b')
    expect(await world.look(id)).toEqual(['stop', 'return a', 'withdraw c', 'end'])
    expect(await world.send()).toEqual([])
    expect(await world.state(id)).toBe('failed')
    expect(await world.operation(id)).toMatchObject({ state: 'background' })
    await world.turn('a', true)
    expect(await world.send()).toEqual(['a'])
    await world.done('a')
    expect(await world.look(id)).toEqual([])
    expect(await world.row(id, 'a')).toMatchObject({ status: 'error', error_code: 'rolled_back' })
  })
})

describe('an administrator', () => {
  it('cancels it: nodes that have not begun end at once, watched nodes end with their current state', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    expect(await world.store.reopen.cancel(id, null)).toBe('done')
    expect(await world.shown(id)).toBe('a:downloading b:cancelled c:cancelled')
    expect(await world.row(id, 'a')).toMatchObject({ message: 'cancelling' })
    expect(await world.look(id)).toEqual(['prove a', 'end'])
    expect(await world.row(id, 'a')).toMatchObject({
      ...{ status: 'success', message: 'cancelled; 1 replica (tiny) is still to be moved' },
    })
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
    expect(await world.store.reopen.cancel(id, null)).toBe('already_finished')
  })

  it('requests the same: it follows, also where a node is watched, and both end alike', async () => {
    await addAll()
    const first = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.look(first)
    const second = await world.upgrade(names)
    const [one, two] = [await world.operation(first), await world.operation(second)]
    expect(two.nodes).toEqual(one.nodes)
    expect(await world.db.selectFrom('rollouts').select('operation_id').execute()).toHaveLength(1)
    // Calling the first off only detaches it.
    expect(await world.store.reopen.cancel(first, null)).toBe('done')
    expect(await world.operation(first)).toMatchObject({ state: 'cancelled' })
    await world.moveReplicas('a', '2')
    await world.look(first)
    await world.pass(10_000)
    await world.look(first)
    expect(await world.shown(second)).toBe('a:success b:queued c:queued')
    await world.send()
    await world.failed('b')
    await world.look(first)
    await world.send()
    await world.done('a')
    await world.look(first)
    expect(await world.shown(second)).toBe('a:error b:error c:cancelled')
    expect(await world.operation(second)).toMatchObject({ state: 'failed' })
    expect(await world.state(first)).toBe('failed')
  })

  it('requests another version: the first one is superseded everywhere, also where a node is watched', async () => {
    await addAll()
    const first = await world.upgrade(names)
    await world.send()
    await world.done('a')
    const second = await world.upgrade(names, {}, '3')
    expect(await world.operation(first)).toMatchObject({ state: 'cancelled', message: `superseded by operation ${second}` })
    expect(await world.look(first)).toEqual(['end'])
    expect(await world.state(first)).toBe('cancelled')
    expect(await world.send()).toEqual(['a'])
  })

  it('deletes the backend: it is over', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    await world.remove(names)
    expect(await world.look(id)).toEqual(['end'])
    expect(await world.operation(id)).toMatchObject({ state: 'cancelled' })
    expect(await world.send()).toEqual(names)
  })

  it('removes nodes: one that is watched, and one that waits for its ring', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await world.send()
    await world.done('a')
    for (const node of ['a', 'b']) await world.store.nodes.remove(NodeId.parse(node))
    expect(await world.shown(id)).toBe('a:cancelled b:cancelled c:queued')
    expect(await world.look(id)).toEqual(['enter', 'begin c'])
    await upgradeOn(id, 'c')
    expect(await world.operation(id)).toMatchObject({ state: 'succeeded' })
    expect(await world.state(id)).toBe('succeeded')
  })

  it('retries it: nodes that were rolled back or called off are upgraded, ring by ring, and it succeeds on all', async () => {
    await addAll()
    const id = await world.upgrade(names)
    await upgradeOn(id, 'a')
    await world.send()
    await world.failed('b')
    await world.look(id)
    const retry = () => world.store.reopen.retry({ id, nodeId: null }, null)
    expect(await retry()).toBe('returning')
    await world.send()
    await world.done('a')
    await world.look(id)
    expect(await world.shown(id)).toBe('a:error b:error c:cancelled')
    expect(await retry()).toBe('done')
    expect((await world.operation(id)).nodes.map(({ ring, status, message }) => [ring, status, message])).toEqual([
      [1, 'queued', ''],
      [2, 'queued', 'waiting for ring 2'],
      [3, 'queued', 'waiting for ring 3'],
    ])
    await sql`update replicas set state = 'draining', drain_since = now() where state = 'ready' and node_id = 'a'`.execute(world.db)
    await upgradeOn(id, 'a')
    await upgradeOn(id, 'b')
    expect(await world.operation(id)).toMatchObject({ state: 'running' })
    await upgradeOn(id, 'c')
    expect(await world.operation(id)).toMatchObject({
      ...{ state: 'succeeded', message: '3 of 3 nodes done' },
      nodes: [{ status: 'success' }, { status: 'success' }, { status: 'success', message: '' }],
    })
    expect(await world.store.reopen.retry({ id, nodeId: NodeId.parse('a') }, null)).toBe('nothing_failed')
  })
})

it('two controllers decide at once: the steps are written once', async () => {
  await addAll()
  const id = await world.upgrade(names)
  await world.send()
  await world.done('a')
  await world.addReplica('a', '2', { checked: 'failed' })
  await Promise.all(Array.from({ length: 8 }, () => world.look(id)))
  const events = await sql<{ type: string }>`select type from intent_events where type in ('returning', 'withdrawn') order by type`.execute(
    world.db,
  )
  expect(events.rows.map(({ type }) => type)).toEqual(['returning', 'withdrawn', 'withdrawn'])
})
