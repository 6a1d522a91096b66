import { checkGatewayToken, Secret, silentLog, systemClock } from '@muster/host'
import { gatewayScope, NodeId, ReplicaId } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { ReadyReplica, RoutableModel } from '../store/routes.ts'
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
  const table = new ReplicaTable({
    routes: { models: async () => rows.models, replicas: async () => rows.replicas },
    ...{ controllerId: 'c', clock: systemClock, log: silentLog },
  })
  return { table, rows }
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
