// `muster nodes drain`.
import { type Command, Option } from 'commander'
import { nodeRoutes } from '@muster/protocol'
import { describeNode } from '../nodes/describe-node.ts'
import { fetchNode, nodeArgument } from '../nodes/fetch-node.ts'
import { followDrain } from '../nodes/follow-drain.ts'
import { followMode } from '../operations/follow-options.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const nodesDrain = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'drain',
    summary: 'Give a node no new work, and move what it serves to others',
    details:
      'Each replica serves on until another node has one in its place. Follows until none is left, or until those that are left wait for a place (exit code 3).',
    arguments: [nodeArgument],
    options: [
      new Option('--wait [duration]', 'follow until no replica is left, also while they wait for a place; --wait=30m: at most so long'),
      new Option('--no-wait', 'mark the node, and follow nothing'),
    ],
    examples: ['muster nodes drain gpu-1', 'muster nodes drain gpu-1 --wait=30m'],
    run: async (call) => {
      const { api, print } = call
      const mode = followMode(call)
      const node = await fetchNode(api, call.words[0])
      const { raw, body } = await api.call(nodeRoutes.drain, { params: { id: node.id } })
      if (mode.follow === 'no') return print.result(raw, () => describeNode(body))
      if (print.format === 'text') print.line(undefined, () => describeNode(body))
      await followDrain(call, mode, body)
    },
  })
