// Pauses on a real database: across restarts of controllers, and with operations that share work.
import { backendInstall, BackendName, Digest, type NodeId, type OperationId, opStatus } from '@muster/protocol'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sql } from 'kysely'
import { type IntentsWorld, startIntentsWorld } from '../../test/intents-world.ts'

let world: IntentsWorld
let node: NodeId
const received: string[] = []
beforeAll(async () => {
  world = await startIntentsWorld()
  const worker = await world.addNode('worker')
  node = worker.node
  worker.bus.serve(backendInstall, { node }, ({ backend }) => {
    received.push(backend)
    return { accepted: true as const }
  })
  worker.bus.serve(opStatus, { node }, ({ op_id }) => ({ op_id, state: 'running' as const }))
})
afterAll(() => world[Symbol.asyncDispose]())

const pause = (id: OperationId) => world.store.pauses.control(id, 'pause', 'admin')
const resume = (id: OperationId) => world.store.pauses.control(id, 'resume', 'admin')
const pausedOf = async (backend: string): Promise<boolean | undefined> => {
  const { rows } = await sql<{ is_paused: boolean }>`select is_paused from intents where backend = ${backend}`.execute(world.db)
  return rows[0]?.is_paused
}

it('a pause outlasts the controllers; only a resume ends it', async () => {
  const id = await world.submit('backend.install', node, { backend: 'held' })
  expect([await pause(id), await pause(id)]).toEqual(['do', 'done'])
  for (const life of ['first', 'second']) {
    const controller = world.startController()
    // A later intent of the same node is sent: the paused one does not hold it up.
    const other = await world.submit('backend.install', node, { backend: life })
    await world.until(other, controller, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
    expect(await world.operation(id, controller)).toMatchObject({ state: 'background', nodes: [{ status: 'queued', paused: true }] })
    await controller.stop()
  }
  expect(received).toEqual(['first', 'second'])
  expect([await resume(id), await resume(id)]).toEqual(['do', 'done'])
  const controller = world.startController()
  await world.until(id, controller, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
  await controller.stop()
})

it('work that several operations need is paused while all of them are', async () => {
  const first = await world.submit('backend.install', node, { backend: 'shared' })
  await pause(first)
  expect(await pausedOf('shared')).toBe(true)
  const second = await world.submit('backend.install', node, { backend: 'shared' })
  expect(await pausedOf('shared')).toBe(false)
  await pause(second)
  expect(await pausedOf('shared')).toBe(true)
  await resume(first)
  expect(await pausedOf('shared')).toBe(false)
  // The operation that is not paused leaves.
  expect(await world.store.reopen.cancel(first, null)).toBe('done')
  expect(await pausedOf('shared')).toBe(true)
  expect(await world.store.reopen.cancel(second, null)).toBe('done')
  const ended = await world.store.operations.find(second)
  expect([ended?.finishedAt !== null, ended?.pausedAt]).toEqual([true, null])
})

it('content that moves to a newer version stays paused', async () => {
  const id = await world.submit('backend.install', node, { backend: 'moved' })
  await pause(id)
  const generation = async () => (await world.store.intents.find(node, BackendName.parse('moved'))).rows[0]?.intent.generation ?? 0
  const before = await generation()
  await world.submit('backend.upgrade', node, { backend: 'moved', digest: Digest.parse(`sha256:${'2'.repeat(64)}`) })
  expect(await generation()).toBeGreaterThan(before)
  expect(await pausedOf('moved')).toBe(true)
})

it('the database refuses a finished operation that is paused, and an open one that is dismissed', async () => {
  const id = await world.submit('backend.install', node, { backend: 'strict' })
  await expect(sql`update operations set dismissed_at = now() where id = ${id}`.execute(world.db)).rejects.toThrow(/dismissed_is_finished/)
  await expect(sql`update operations set paused_at = now(), finished_at = now() where id = ${id}`.execute(world.db)).rejects.toThrow(
    /paused_is_open/,
  )
})
