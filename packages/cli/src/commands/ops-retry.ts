// `muster ops retry`.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { NodeId, operationRoutes, type OperationView } from '@muster/protocol'
import { findByName } from '../find-by-name.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import { operationArgument, parseOperationId } from '../operations/operation-table.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const opsRetry = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'retry',
    summary: 'Try an operation again where it failed',
    arguments: [operationArgument],
    options: [new Option('--node <node>', 'only on this node, by id or by a name that only one has'), ...followOptions()],
    examples: ['muster ops retry op-7d3k2m --node gpu-1'],
    run: async (call) => {
      const mode = followMode(call)
      const id = parseOperationId(call.words[0])
      const body = await nodeOf(call, id)
      const { raw } = await call.api.call(operationRoutes.retry, { params: { id }, body, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [id] })
    },
  })

/** Among the nodes of the operation: another one can't be meant, and one that was removed still has its name there. */
async function nodeOf({ api, option }: ClientCall, id: OperationView['id']): Promise<{ node_id?: NodeId }> {
  const wanted = option('node')
  if (wanted === undefined) return {}
  const { body } = await api.call(operationRoutes.get, { params: { id } })
  const named = body.nodes.map((node) => ({ id: node.node_id, name: node.node_name }))
  return { node_id: NodeId.parse(findByName('node', named, wanted).id) }
}
