// Cancelled intents: no controller sends them again, and no work of theirs is left running.
import { backendDelete, backendInstall, type NodeId, opCancel, type OperationId, opStatus } from '@muster/protocol'
import type { Bus } from '@muster/bus'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type IntentsWorld, startIntentsWorld, type TestIntents } from '../../test/intents-world.ts'

let world: IntentsWorld
let controller: TestIntents
beforeAll(async () => {
  world = await startIntentsWorld()
  controller = world.startController()
})
afterAll(() => world[Symbol.asyncDispose]())

/** Accepts everything, and works on it until it is cancelled. */
function serve({ node, bus }: { node: NodeId; bus: Bus }) {
  const commands: string[] = []
  const running = new Set<string>()
  const accept = (kind: string) => (command: { op_id?: string | undefined }) => {
    commands.push(kind)
    running.add(command.op_id ?? '')
    return { accepted: true as const }
  }
  const to = { node }
  bus.serve(backendInstall, to, accept('install'))
  bus.serve(backendDelete, to, accept('delete'))
  bus.serve(opStatus, to, ({ op_id }) => ({ op_id, state: running.has(op_id) ? ('running' as const) : ('unknown' as const) }))
  bus.serve(opCancel, to, ({ op_id }) => ({ op_id, state: running.delete(op_id) ? ('cancelled' as const) : ('unknown' as const) }))
  return { commands, running }
}
const drain = (node: NodeId, draining: boolean) => sql`update nodes set draining = ${draining} where id = ${node}`.execute(world.db)
const cancel = async (id: OperationId): Promise<void> => {
  expect(await world.store.reopen.cancel(id, null)).toBe('done')
  controller.operations.wake()
}
const inWork = (id: OperationId) => world.until(id, controller, 'in work', ({ nodes }) => nodes[0]?.status === 'downloading')
const ended = (id: OperationId) => world.until(id, controller, 'ended', ({ finished_at: at }) => at !== null)

it('a newer intent that is cancelled before it was sent ends the superseded work on the worker first', async () => {
  const at = await world.addNode('superseded')
  const worker = serve(at)
  const older = await world.submit('backend.install', at.node)
  await inWork(older)
  // Nothing is sent to a drained node; it can still be told to stop.
  await drain(at.node, true)
  const newer = await world.submit('backend.delete', at.node)
  const newest = await world.submit('backend.install', at.node, { exact: true })
  expect((await world.operation(newer, controller)).nodes[0]).toMatchObject({ status: 'cancelled' })
  await cancel(newest)
  expect(await ended(newest)).toMatchObject({ state: 'cancelled' })
  expect([...worker.running]).toEqual([])
  expect(worker.commands).toEqual(['install'])
})

it('a cancelled intent is never sent again, however due it is', async () => {
  const at = await world.addNode('cancelled')
  const worker = serve(at)
  const id = await world.submit('backend.install', at.node)
  await inWork(id)
  // The worker forgot the work, so the intent waits for its next attempt when it is cancelled.
  worker.running.clear()
  await sql`update node_pulses set answering = 'unproven' where node_id = ${at.node}`.execute(world.db)
  await sql`update intents set state = 'waiting', wait = null, accepted_at = null, sign_at = null, next_at = now(), was_sent = true,
    row_version = row_version + 1 where node_id = ${at.node}`.execute(world.db)
  await cancel(id)
  expect((await world.store.intents.claim({ holder: 'test', leaseMs: 60_000, limit: 10 })).rows).toEqual([])
  await sql`update node_pulses set answering = 'yes' where node_id = ${at.node}`.execute(world.db)
  expect((await world.store.intents.claim({ holder: 'test', leaseMs: 60_000, limit: 10 })).rows).toEqual([])
  controller.operations.wake()
  expect(await ended(id)).toMatchObject({ state: 'cancelled', nodes: [{ status: 'cancelled' }] })
  expect(worker.commands).toEqual(['install'])
})

it('an intent that is cancelled while its command is on its way is cancelled on the worker and sent once', async () => {
  const { node, bus } = await world.addNode('crossing')
  const arrived = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const commands: string[] = []
  const cancels: string[] = []
  bus.serve(backendInstall, { node }, async ({ op_id }) => {
    commands.push(op_id ?? '')
    arrived.resolve()
    await answered.promise
    return { accepted: true as const }
  })
  bus.serve(opStatus, { node }, ({ op_id }) => ({ op_id, state: 'running' as const }))
  bus.serve(opCancel, { node }, ({ op_id }) => {
    cancels.push(op_id)
    return { op_id, state: 'cancelled' as const }
  })
  const id = await world.submit('backend.install', node)
  await arrived.promise
  await cancel(id)
  answered.resolve()
  expect(await ended(id)).toMatchObject({ state: 'cancelled' })
  expect({ commands, cancels }).toEqual({ commands: [id], cancels: [id] })
})
