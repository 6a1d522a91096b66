// The node that an argument names, asked from the server.
import { nodeRoutes, type NodeView } from '@muster/protocol'
import type { ApiClient } from '../client/api-client.ts'
import { findByName } from '../find-by-name.ts'

export const nodeArgument = ['<node>', 'its id, or its name if only one node has it'] as const

export async function fetchNodes(api: ApiClient, wanted: readonly string[]): Promise<NodeView[]> {
  const { body } = await api.call(nodeRoutes.list)
  return wanted.map((name) => findByName('node', body.nodes, name))
}

export async function fetchNode(api: ApiClient, wanted: string | undefined): Promise<NodeView> {
  const { body } = await api.call(nodeRoutes.list)
  return findByName('node', body.nodes, wanted ?? '')
}
