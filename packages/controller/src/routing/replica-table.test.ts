import { checkGatewayToken, Secret, silentLog, systemClock } from '@muster/host'
import { gatewayScope, NodeId, ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import type { ReadyReplica, RoutableModel, RouteScope } from '../store/routes.ts'
import { ReplicaTable } from './replica-table.ts'

const replica = ({ id = 'r-1', model = 'tiny', secret = 's' } = {}): ReadyReplica => ({
  ...{ id: ReplicaId.parse(id), model, revision: 'rev-1' },
  node: {
    ...{ id: NodeId.parse('n-1'), name: 'gpu-1', gatewayUrl: 'http://127.0.0.1:1', gatewaySecret: new Secret(secret) },
    ...{ approved: true, draining: false, liveness: 'present', answering: 'yes', lastSeenAt: null },
  },
})
const modelOf = (name: string): RoutableModel => ({ name, createdAt: '2026-01-01' })

function world() {
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
    ...{ controllerId: 'c', clock: systemClock, log: silentLog },
  })
  const hold = (): (() => void) => {
    const mine = Promise.withResolvers<void>()
    held = mine
    return mine.resolve
  }
  return { table, rows, scopes, hold }
}

it('I14 a node with another secret is asked with another token, at the next look', async () => {
  const { table, rows } = world()
  const accepts = (secret: string): boolean => {
    const token = table.find('tiny')?.replicas[0]?.authorization.replace('Bearer ', '') ?? ''
    return checkGatewayToken(token, { secret, nodeId: 'n-1', scope: gatewayScope.replica(ReplicaId.parse('r-1')) }) === 'c'
  }
  await table.learn('tiny')
  expect(accepts('s')).toBe(true)
  rows.replicas = [replica({ secret: 'another' })]
  await table.learn('tiny')
  expect([accepts('another'), accepts('s')]).toEqual([true, false])
})

it('what was read before a model was deleted does not bring it back', async () => {
  const { table, rows, scopes, hold } = world()
  const letGo = hold()
  const stopping = new AbortController()
  const running = table.run(stopping.signal)
  await waitFor(() => scopes.length === 1, { what: 'the first read' })
  rows.models = []
  rows.replicas = []
  const learned = table.learn('tiny')
  // Time enough for a read that does not wait its turn.
  await new Promise(setImmediate)
  letGo()
  await learned
  expect(table.find('tiny')).toBeUndefined()
  stopping.abort()
  await running
  expect(table.find('tiny')).toBeUndefined()
})

it('who asks while a read is under way is answered by one that begins later, together with all others', async () => {
  const { table, rows, scopes, hold } = world()
  const letGo = hold()
  const first = table.learn('tiny')
  await waitFor(() => scopes.length === 1, { what: 'the first read' })
  rows.models = [modelOf('tiny'), modelOf('small')]
  rows.replicas = []
  const others = [table.learn('tiny'), table.learn('small'), table.learn('none')]
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

it('one model that was read says nothing of all others', async () => {
  const { table } = world()
  await table.learn('tiny')
  expect([table.find('tiny')?.replicas.length, table.isLoaded]).toEqual([1, false])
})
