// `muster backends rm`.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { backendRoutes } from '@muster/protocol'
import { followSubmission } from '../backends/answer-wish.ts'
import { parseBackendName } from '../backends/backend-name.ts'
import { dryRunOption, namedNodes, nodeOption } from '../backends/target-options.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const backendsRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Delete a backend from all nodes that have it, or from some',
    details: 'Nodes that are away are told when they are back. A backend that serves a model is left alone, unless --force.',
    arguments: [['<name>', 'of the backend']],
    options: [
      nodeOption(),
      new Option('--force', 'also where it serves a model: that is drained first'),
      dryRunOption(),
      ...followOptions(),
    ],
    examples: ['muster backends rm llama', 'muster backends rm llama --node gpu-1'],
    run: async (call) => {
      const { api, words, list, flag } = call
      const mode = followMode(call)
      const name = parseBackendName(words[0])
      const { nodes } = await namedNodes(api, list('node'))
      const query = { node: nodes, force: flag('force'), dry_run: flag('dryRun') }
      await followSubmission(call, mode, await api.call(backendRoutes.remove, { params: { name }, query, idempotencyKey: newId() }))
    },
  })
