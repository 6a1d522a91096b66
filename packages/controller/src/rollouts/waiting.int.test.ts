// A rollout waits for some things, not for others, and always ends; on a real database.
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startRolloutWorld, type RolloutWorld } from '../../test/rollout-world.ts'

let world: RolloutWorld
beforeAll(async () => void (world = await startRolloutWorld()))
afterAll(() => world[Symbol.asyncDispose]())
beforeEach(() => world.clear())

const quarter = 15 * 60_000
const addLoad = (more: { code?: string; pin?: string; attempts?: number } = {}) =>
  sql`insert into loads (model, purpose, ordinal, revision, state, attempts, next_at, failure, failed_at, pinned_node_id)
    values ('tiny', 'serve', 9, 'r2', 'failed', ${more.attempts ?? 0}, now() + interval '1 minute',
      ${JSON.stringify({ code: more.code ?? 'internal', retry: 'backoff', message: 'because' })}::jsonb, clock_timestamp(), ${more.pin ?? null})`.execute(
    world.db,
  )
const crash = (of: string, ago = '0 s') =>
  sql`update replicas set state = 'exited', exited_at = clock_timestamp() - ${ago}::interval, exit = '{"exit_code":3}' where id = ${of}`.execute(
    world.db,
  )
const prove = async (id: Parameters<RolloutWorld['look']>[0]): Promise<string[]> => {
  await world.look(id)
  await world.pass(10_000)
  return await world.look(id)
}

describe('a model that cannot move for reasons of its own', () => {
  it.each([
    ['an edit that is broken', { code: 'internal', attempts: 3 }],
    ['no room for its replacement', { code: 'no_capacity' }],
  ])('by %s: it is not waited for, and the node says so', async (_, load) => {
    await world.addNode('a')
    await world.addModel('tiny')
    await addLoad(load)
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    expect(await prove(id)).toEqual(['prove a', 'watch', 'end'])
    expect(await world.row(id, 'a')).toMatchObject({
      ...{ status: 'success', message: 'tiny stays on the previous version for now: because' },
    })
  })

  it('an edit of a model with one replica per node, whose successor must run on the same node, is not a failure of the version', async () => {
    await world.addNode('a')
    await world.addModel('tiny')
    await addLoad({ pin: 'a', attempts: 2 })
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    await sql`update loads set failed_at = clock_timestamp()`.execute(world.db)
    expect(await prove(id)).toEqual(['prove a', 'watch', 'end'])
  })

  it('does not delay the rollback either', async () => {
    await world.addNode('a')
    await world.addModel('tiny')
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    await world.addReplica('a', '2', { checked: 'failed', model: 'other' })
    await world.look(id)
    await world.send()
    await world.done('a')
    await addLoad()
    await world.addReplica('a', '2')
    expect(await world.look(id)).toEqual(['returned a', 'end'])
    expect((await world.row(id, 'a')).error).toContain('tiny stays on the new version for now: because')
  })

  it('is distinguished from one that fails because of the version: that delays the rollback until no replica runs it', async () => {
    for (const name of ['a', 'b']) await world.addNode(name)
    await world.addModel('tiny')
    const id = await world.upgrade(['a', 'b'], { canary: 2 })
    await world.send()
    await world.done('b')
    await world.done('a')
    await addLoad({ pin: 'b' })
    await sql`update loads set revision = 'r'`.execute(world.db)
    expect(await world.look(id)).toEqual(['stop', 'return a', 'return b'])
    await world.send()
    await world.done('b')
    await world.done('a')
    await world.addReplica('a', '2')
    expect(await world.look(id)).toEqual(['returned b'])
  })

  it('one that kept exiting before does not count against the version', async () => {
    await world.addNode('a')
    await crash(await world.addReplica('a', '1'), '1 minute')
    await crash(await world.addReplica('a', '1'), '2 minutes')
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    await world.moveReplicas('a', '2')
    await crash(await world.addReplica('a', '2'))
    expect(await prove(id)).toEqual(['prove a', 'watch', 'end'])
    expect(await world.row(id, 'a')).toMatchObject({ message: 'tiny had trouble before the upgrade and is not waited for' })
  })
})

describe('replicas that should move and do not', () => {
  it('fail the ring after a while without progress; the rollback ends with the current state', async () => {
    await world.addNode('a')
    await world.addNode('b')
    const id = await world.upgrade(['a', 'b'])
    await world.send()
    await world.done('a')
    await world.look(id)
    await world.passWaiting(quarter - 1_000)
    expect(await world.look(id)).toEqual([])
    await world.passWaiting(1_000)
    expect(await world.look(id)).toEqual(['stop', 'return a', 'withdraw b'])
    await world.send()
    await world.done('a')
    await world.addReplica('a', '2')
    expect(await world.look(id)).toEqual([])
    await world.passWaiting(quarter)
    expect(await world.look(id)).toEqual(['returned a', 'end'])
    const { status, error_code: code, error } = await world.row(id, 'a')
    expect([status, code]).toEqual(['error', 'rolled_back'])
    expect(error).toMatch(
      /1 replica \(tiny\) is not moved to the new version.*for 15 minutes; 1 replica \(tiny\) is still on the new version/,
    )
  })

  it('include those that are starting', async () => {
    await world.addNode('a')
    const id = await world.upgrade(['a'])
    await world.send()
    await world.done('a')
    await world.moveReplicas('a', '2')
    await world.addReplica('a', null, { model: 'small' })
    expect(await prove(id)).toEqual([])
    expect(await world.row(id, 'a')).toMatchObject({ message: 'installed; 1 replica (small) is still to be moved' })
  })

  it('are unknown until the inventory of a node when only that shows its version', async () => {
    await world.addNode('a')
    const id = await world.upgrade(['a'], {}, '2', { digest: null, uri: 'file:///x' })
    await world.send()
    await world.step('a', { type: 'succeeded', note: '' })
    expect(await prove(id)).toEqual([])
    expect((await world.row(id, 'a')).message).toContain('the node has not listed the new version yet')
    await world.list('a', '2')
    await world.moveReplicas('a', '2')
    expect(await prove(id)).toEqual(['prove a', 'watch', 'end'])
  })
})

it('two backends that share an alias on one node: each rollout waits for its own replicas alone', async () => {
  await world.addNode('a')
  await world.addNode('b', { replicas: 0 })
  await world.addReplica('a', '7', { of: 'other', model: 'small' })
  await world.addReplica('a', '7', { of: 'shared', model: 'third' })
  await world.addReplica('b', '7', { of: 'shared', model: 'third' })
  const id = await world.upgrade(['a', 'b'], {}, '2', { alias: 'shared' as never })
  expect((await world.operation(id)).nodes.map(({ ring }) => ring)).toEqual([1, null])
  await world.send()
  await world.done('b')
  await world.done('a')
  await world.moveReplicas('a', '2')
  await crash(await world.addReplica('a', '7', { of: 'shared', model: 'third' }))
  expect(await prove(id)).toEqual(['prove a', 'watch', 'end'])
})

describe('a disk that is too small for two versions', () => {
  it.each([
    ['where nothing runs', 0],
    ['on a straggler, after the rollout has ended', 1],
  ])('%s: recreated, and says so', async (_, replicas) => {
    await world.addNode('a')
    await world.addNode('b', { replicas })
    await world.turn('b', false)
    const id = await world.upgrade(['a', 'b'])
    await world.send()
    await world.done('a')
    await world.moveReplicas('a', '2')
    expect(await prove(id)).toContain('end')
    await world.turn('b', true)
    expect(await world.send()).toEqual(['b'])
    await world.failed('b', { code: 'disk_full', retry: 'backoff', message: 'too little disk space' })
    expect(await world.row(id, 'b')).toMatchObject({ status: 'queued', attempts: 0 })
    expect(await world.send()).toEqual(['b'])
    expect((await world.intentOf('b')).record.plan.strategy).toBe('recreate')
    await world.done('b')
    expect(await world.row(id, 'b')).toMatchObject({ status: 'success', message: 'recreate: the disk is too small for two versions' })
  })
})
