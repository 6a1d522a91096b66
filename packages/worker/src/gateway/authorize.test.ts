import type { IncomingMessage, ServerResponse } from 'node:http'
import { mintGatewayToken } from '@muster/host'
import { gatewayScope, NodeId, ReplicaId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createAuthorize, type GatewayIdentity } from './authorize.ts'

const own: GatewayIdentity = { nodeId: NodeId.parse('n-1'), secret: 'secret' }
const scope = (id: string): string => gatewayScope.replica(ReplicaId.parse(id))

function createWorld() {
  let identity: GatewayIdentity = own
  const authorize = createAuthorize(() => identity)
  const statuses: number[] = []
  const ask = (token: string, wanted: string): string | null => {
    const request = { headers: { authorization: `Bearer ${token}` } } as IncomingMessage
    const response = { req: request, writeHead: (status: number) => void statuses.push(status), end: () => undefined }
    return authorize(request, response as unknown as ServerResponse, wanted)
  }
  return { ask, statuses, change: (next: GatewayIdentity) => void (identity = next) }
}

it('a token that was accepted for one scope is refused for every other', () => {
  const { ask, statuses } = createWorld()
  const token = mintGatewayToken({ ...own, scope: scope('r-1'), controller: 'c-1' })
  expect([ask(token, scope('r-1')), ask(token, scope('r-1'))]).toEqual(['c-1', 'c-1'])
  expect([ask(token, scope('r-2')), ask(token, gatewayScope.logs), ask(token, gatewayScope.upload)]).toEqual([null, null, null])
  expect(statuses).toEqual([401, 401, 401])
})

it('an accepted token is refused after a change of the secret', () => {
  const { ask, change } = createWorld()
  const token = mintGatewayToken({ ...own, scope: scope('r-1'), controller: 'c-1' })
  expect(ask(token, scope('r-1'))).toBe('c-1')
  change({ ...own, secret: 'another' })
  expect(ask(token, scope('r-1'))).toBe(null)
})
