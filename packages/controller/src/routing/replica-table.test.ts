import { checkGatewayToken, Secret, silentLog, systemClock } from '@muster/host'
import { gatewayScope, NodeId, ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { describe, expect, it } from 'vitest'
import type { ReadyReplica, RoutableModel, RouteScope } from '../store/routes.ts'
import { ReplicaTable } from './replica-table.ts'

interface Made {
  readonly id?: string
  readonly secret?: string
  readonly node?: Partial<ReadyReplica['node']>
}
const replica = ({ id = 'r-1', secret = 's', node = {} }: Made = {}): ReadyReplica => ({
  ...{ id: ReplicaId.parse(id), model: 'tiny', revision: 'rev-1' },
  node: {
    ...{ id: NodeId.parse('n-1'), name: 'gpu-1', gatewayUrl: 'http://127.0.0.1:1', gatewaySecret: new Secret(secret) },
    ...{ approved: true, draining: false, liveness: 'present', answering: 'yes', lastSeenAt: null },
    ...node,
  },
})
const modelOf = (name: string): RoutableModel => ({ name, createdAt: '2026-01-01', policy: 'prefix', isDisabled: false })

function world() {
  const feed: { cursor: number | null } = { cursor: 0 }
  const rows = { models: [modelOf('tiny')], replicas: [replica()] }
  const scopes: RouteScope[] = []
  /** The next answer is taken from the rows at once, and arrives when it is let go. */
  let held: PromiseWithResolvers<void> | null = null
  const table = new ReplicaTable({
    routes: {
      models: async (scope) => {
        scopes.push(scope)
        const answer = rows.models.filter(({ name }) => scope?.models.includes(name) ?? true)
        const gate = held
        held = null
        await gate?.promise
        return answer
      },
      replicas: async (scope) => rows.replicas.filter(({ model }) => scope?.models.includes(model) ?? true),
    },
    ...{ feedCursor: () => feed.cursor, onRead: () => undefined },
    ...{ controllerId: 'c', clock: systemClock, log: silentLog },
  })
  const hold = (): (() => void) => {
    const mine = Promise.withResolvers<void>()
    held = mine
    return mine.resolve
  }
  return { table, rows, scopes, hold, feed }
}

it('I14 a new node secret gives a new token at the next read', async () => {
  const { table, rows } = world()
  const accepts = (secret: string): boolean => {
    const token = table.find('tiny')?.replicas[0]?.authorization.replace('Bearer ', '') ?? ''
    return checkGatewayToken(token, { secret, nodeId: 'n-1', scope: gatewayScope.replica(ReplicaId.parse('r-1')) }) === 'c'
  }
  await table.refresh('tiny')
  expect(accepts('s')).toBe(true)
  rows.replicas = [replica({ secret: 'another' })]
  await table.refresh('tiny')
  expect([accepts('another'), accepts('s')]).toEqual([true, false])
})

it('a read that started before a model was deleted does not bring it back', async () => {
  const { table, rows, scopes, hold } = world()
  const letGo = hold()
  const stopping = new AbortController()
  const running = table.run(stopping.signal)
  await waitFor(() => scopes.length === 1, { what: 'the first read' })
  rows.models = []
  rows.replicas = []
  const learned = table.refresh('tiny')
  // Time enough for a read that does not wait its turn.
  await new Promise(setImmediate)
  letGo()
  await learned
  expect(table.find('tiny')).toBeUndefined()
  stopping.abort()
  await running
  expect(table.find('tiny')).toBeUndefined()
})

it('refreshes during a read share one later read', async () => {
  const { table, rows, scopes, hold } = world()
  const letGo = hold()
  const first = table.refresh('tiny')
  await waitFor(() => scopes.length === 1, { what: 'the first read' })
  rows.models = [modelOf('tiny'), modelOf('small')]
  rows.replicas = []
  const others = [table.refresh('tiny'), table.refresh('small'), table.refresh('none')]
  letGo()
  await Promise.all([first, ...others])
  expect(scopes).toEqual([
    { models: ['tiny'], nodes: [] },
    { models: ['tiny', 'small', 'none'], nodes: [] },
  ])
  expect(table.list()).toMatchObject([
    { name: 'small', replicas: [] },
    { name: 'tiny', replicas: [] },
  ])
})

it('reading one model does not count as a full read', async () => {
  const { table } = world()
  await table.refresh('tiny')
  expect([table.find('tiny')?.replicas.length, table.isLoaded]).toEqual([1, false])
})

it.each<[string, Partial<ReadyReplica['node']>, number]>([
  ['is routed to while its node is drained', { draining: true }, 1],
  ['is not routed to while its node is silent', { liveness: 'silent' }, 0],
  ['is not routed to while its node is drained and silent', { draining: true, liveness: 'silent' }, 0],
  ['is not routed to when its node was stopped', { liveness: 'left' }, 0],
  ['is not routed to while its node does not answer', { draining: true, answering: 'no' }, 0],
  ['is not routed to while its node is not approved', { approved: false }, 0],
])('G10 a replica that is ready %s', async (_, node, want) => {
  const { table, rows } = world()
  rows.replicas = [replica({ node })]
  await table.refresh('tiny')
  expect(table.find('tiny')?.replicas).toHaveLength(want)
})

async function whileRunning(table: ReplicaTable, work: () => Promise<void>): Promise<void> {
  const stopping = new AbortController()
  const ran = table.run(stopping.signal)
  await work().finally(() => stopping.abort())
  await ran
}
const changed = (seq: number) => [{ kind: 'model', id: 'tiny', seq, deleted: false }]

describe('the routing position', () => {
  it('is the cursor of the feed at the start of a read, not at its end', async () => {
    const { table, hold, scopes, feed } = world()
    feed.cursor = 5
    await whileRunning(table, async () => {
      const letGo = hold()
      await waitFor(() => scopes.length === 1, { what: 'the first read' })
      feed.cursor = 6
      table.markChanged(changed(6))
      expect(table.position).toBeNull()
      const letGoOfSecond = () => waitFor(() => scopes.length === 2, { what: 'the second read' })
      letGo()
      await waitFor(() => table.position !== null, { what: 'the first read to end' })
      expect(table.position).toBe(5)
      await letGoOfSecond()
      await waitFor(() => table.position === 6, { what: 'the second read to end' })
    })
  })

  it('moves without a read when no route changed', async () => {
    const { table, scopes, feed } = world()
    await whileRunning(table, async () => {
      await waitFor(() => table.position === 0, { what: 'the first read' })
      feed.cursor = 7
      table.markChanged([{ kind: 'operation', id: 'o', seq: 7, deleted: false }])
      expect([table.position, scopes.length]).toEqual([7, 1])
      table.markChanged(changed(8))
      feed.cursor = 8
      expect(table.position).toBe(7)
    })
  })

  it('is unknown until a full read after the feed has its cursor', async () => {
    const { table, scopes, feed } = world()
    feed.cursor = null
    await whileRunning(table, async () => {
      await waitFor(() => table.isLoaded, { what: 'the first read' })
      expect(table.position).toBeNull()
      feed.cursor = 3
      expect(table.position).toBeNull()
      table.onCursorMoved()
      await waitFor(() => table.position === 3, { what: 'the second read' })
      expect(scopes).toEqual([null, null])
    })
  })
})
