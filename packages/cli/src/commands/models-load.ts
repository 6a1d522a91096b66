// `muster models load`.
import type { Command } from 'commander'
import { newId } from '@muster/host'
import { modelRoutes } from '@muster/protocol'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsLoad = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'load',
    summary: 'Have a model ready: at least one replica, or its minimum',
    details: 'Installs its backend where it is missing, fetches its files and starts it. What failed is tried again at once.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models load tiny', 'muster models load tiny --wait=30m'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.load, { params, body: {}, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })
