// `muster nodes label`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { parseLabelArguments } from '../nodes/label-arguments.ts'
import { labelLines } from '../nodes/node-table.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesLabel = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'label',
    summary: 'Show, set or take away labels of a node',
    arguments: [nodeArgument, ['[label...]', 'KEY=VALUE sets a label, KEY- takes one away; none shows all']],
    examples: ['muster nodes label gpu-1 rack=b2 tier=fast', 'muster nodes label gpu-1 tier-'],
    run: async ({ api, print, words: [wanted, ...labels] }) => {
      const patch = parseLabelArguments(labels)
      const node = await fetchNode(api, wanted)
      const params = { id: node.id }
      const { raw, body } =
        labels.length === 0
          ? await api.call(nodeRoutes.labels, { params })
          : await api.call(nodeRoutes.patchLabels, { params, body: patch })
      print.result(raw, () => labelLines(body.labels).map(plainText).join('\n'))
    },
  })
