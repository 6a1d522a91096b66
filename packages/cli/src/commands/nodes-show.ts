// `muster nodes show`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { renderNode } from '../nodes/node-table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show all that is known of one node',
    arguments: [nodeArgument],
    examples: ['muster nodes show gpu-1', 'muster nodes show gpu-1 -o json'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const { raw, body } = await api.call(nodeRoutes.get, { params: { id: node.id } })
      print.result(raw, () => renderNode(body, shell.clock.now()))
    },
  })
