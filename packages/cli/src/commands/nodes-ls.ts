// `muster nodes ls`: a table, once or as it changes.
import { type Command, Option } from 'commander'
import { nodeRoutes, NodeView } from '@muster/protocol'
import { nodeColumns } from '../nodes/node-table.ts'
import { plainText } from '../output/plain-text.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { type ClientCall, clientCommand } from './client-command.ts'

export const nodesLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List the nodes',
    options: [
      new Option('--status <status>', 'only nodes of this status').choices(NodeView.shape.status.options),
      new Option(
        '--watch',
        'go on until Ctrl-C: keeps the table up to date; not on a terminal, a line for each change; with -o json, an object per line',
      ),
    ],
    examples: ['muster nodes ls --status pending', 'muster nodes ls --watch'],
    run: async (call) => {
      if (!call.flag('watch')) return listNodes(call)
      const { watchNodes } = await import('../nodes/watch-nodes.ts')
      return watchNodes(call)
    },
  })

async function listNodes({ api, print, shell, option }: ClientCall): Promise<void> {
  const { raw, body } = await api.call(nodeRoutes.list)
  const status = option('status')
  const wanted = body.nodes.map((node) => status === undefined || node.status === status)
  const shown = body.nodes.filter((_, at) => wanted[at])
  if (print.format === 'text' && shown.length === 0)
    return print.remark(status === undefined ? 'no nodes yet: `muster join URL --token T` adds this machine' : `no node is ${status}`)
  print.result(status === undefined ? raw : keepMatching(raw, wanted), () => renderTable(nodeColumns(shell.clock), shown, print.width))
  const pending = shown.filter((node) => node.status === 'pending')
  if (pending.length > 0)
    print.remark(`waiting for approval: ${pending.map((node) => plainText(node.name)).join(', ')} (muster nodes approve NODE)`)
}

/** The answer as it came, with some of its nodes left out: fields that this version does not know stay. */
function keepMatching(raw: unknown, wanted: readonly boolean[]): unknown {
  if (typeof raw !== 'object' || raw === null || !('nodes' in raw) || !Array.isArray(raw.nodes)) return raw
  return { ...raw, nodes: raw.nodes.filter((_, at) => wanted[at]) }
}
