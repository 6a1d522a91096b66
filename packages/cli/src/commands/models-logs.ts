// `muster models logs`.
import { type Command, Option } from 'commander'
import { type ModelName, modelRoutes, nodeRoutes, type NodeId } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { logLines } from '../models/model-logs.ts'
import { fetchNode } from '../nodes/fetch-node.ts'
import { plainText } from '../output/plain-text.ts'
import { reportError } from '../report-error.ts'
import type { Shell } from '../shell.ts'
import { untilInterrupted } from '../until-interrupted.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const modelsLogs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'logs',
    summary: 'Show what the processes of a model wrote',
    details: 'Of several nodes, each line begins with the name of its node. With -o json each line is an object.',
    arguments: [modelArgument],
    options: [
      new Option('--node <node>', 'only on this node, by id or by a name that only one has'),
      new Option('-f, --follow', 'go on until Ctrl-C'),
    ],
    examples: ['muster models logs tiny', 'muster models logs tiny --node gpu-1 -f'],
    run: async (call) => {
      const model = parseModelName(call.words[0])
      const nodes = await nodesOf(call, model)
      if (nodes.length === 0) return call.print.remark('there is no node that could have written something')
      using interrupted = untilInterrupted()
      const wish = { model, isFollowing: call.flag('follow'), signal: interrupted.signal }
      const longest = Math.max(...nodes.map((node) => node.name.length))
      const show = async (node: NamedNode): Promise<void> => {
        for await (const line of logLines(call.api, { ...wish, id: node.id }))
          call.print.line({ node_id: node.id, node_name: node.name, line }, () => {
            return nodes.length === 1 ? plainText(line) : `${plainText(node.name).padEnd(longest)}  ${plainText(line)}`
          })
      }
      // One node that can't be asked hides nothing of the others.
      await Promise.all(nodes.map((node) => show(node).catch((error: unknown) => reportNodeError(call, node, error))))
    },
  })

interface NamedNode {
  readonly id: NodeId
  readonly name: string
}

/** The one that is named; else those of its replicas; without any, all that may have had one. */
async function nodesOf({ api, option }: ClientCall, name: ModelName): Promise<NamedNode[]> {
  const wanted = option('node')
  if (wanted !== undefined) return [await fetchNode(api, wanted)]
  const { replicas } = (await api.call(modelRoutes.replicas, { params: { name } })).body
  const own = new Map(replicas.map((replica) => [replica.node_id, { id: replica.node_id, name: replica.node_name || replica.node_id }]))
  if (own.size > 0) return [...own.values()]
  const { nodes } = (await api.call(nodeRoutes.list)).body
  return nodes.filter((node) => node.node_type === 'backend' && (node.status === 'healthy' || node.status === 'draining'))
}

function reportNodeError({ shell }: ClientCall, node: NamedNode, error: unknown): void {
  if (!(error instanceof CliError)) throw error
  reportError(error.about(plainText(node.name)), shell.terminal)
  shell.fail(1)
}
