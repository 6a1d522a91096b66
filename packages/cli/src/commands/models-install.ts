// `muster models install`.
import type { Command } from 'commander'
import { newId } from '@muster/host'
import { modelRoutes } from '@muster/protocol'
import { parseModelName } from '../models/model-name.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsInstall = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'install',
    summary: 'Take a model from a gallery: its configuration and its files',
    arguments: [['<name>', 'as `muster models gallery` shows it']],
    options: followOptions(),
    examples: ['muster models install tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const body = { model: parseModelName(call.words[0]) }
      const answer = await call.api.call(modelRoutes.install, { body, idempotencyKey: newId() })
      await followStarted(call, mode, { raw: answer.raw, ids: [answer.body.operation_id] })
    },
  })
