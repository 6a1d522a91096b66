// `muster nodes rm`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Forget a node and its key',
    details:
      'Its open operations are cancelled. The worker is told, stops what it serves and keeps its files; to come back it needs a join token and a new approval.',
    arguments: [nodeArgument],
    examples: ['muster nodes rm gpu-1'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const { raw } = await api.call(nodeRoutes.remove, { params: { id: node.id } })
      print.result(raw, () => `${plainText(node.name)} (${node.id}) is removed`)
    },
  })
