// `muster models rm`.
import type { Command } from 'commander'
import { newId } from '@muster/host'
import { modelRoutes } from '@muster/protocol'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Delete a model: its configuration now, its replicas and files everywhere',
    details: 'Nodes that are away delete its files when they are back. Its backend stays.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models rm tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.remove, { params, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })
