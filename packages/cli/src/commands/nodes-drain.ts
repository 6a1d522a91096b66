// `muster nodes drain`.
import type { Command } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { describeNode } from '../nodes/describe-node.ts'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesDrain = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'drain',
    summary: 'Give a node no new work; what it serves goes on',
    arguments: [nodeArgument],
    examples: ['muster nodes drain gpu-1'],
    run: async ({ api, print, words: [wanted] }) => {
      const node = await fetchNode(api, wanted)
      const { raw, body } = await api.call(nodeRoutes.drain, { params: { id: node.id } })
      print.result(raw, () => describeNode(body))
    },
  })
