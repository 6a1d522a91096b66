// `muster nodes resume`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { describeNode } from '../nodes/describe-node.ts'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesResume = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'resume',
    summary: 'End a drain: the node gets work again',
    arguments: [nodeArgument],
    examples: ['muster nodes resume gpu-1'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const { raw, body } = await api.call(nodeRoutes.resume, { params: { id: node.id } })
      print.result(raw, () => describeNode(body))
    },
  })
