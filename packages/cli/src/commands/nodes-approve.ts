// `muster nodes approve`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { describeNode } from '../nodes/describe-node.ts'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesApprove = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'approve',
    summary: 'Let a pending node in, so that it gets work',
    arguments: [nodeArgument],
    examples: ['muster nodes approve gpu-1'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const { raw, body } = await api.call(nodeRoutes.approve, { params: { id: node.id } })
      print.result(raw, () => describeNode(body))
    },
  })
