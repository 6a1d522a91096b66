// `muster models unload`.
import type { Command } from 'commander'
import { newId } from '@muster/host'
import { modelRoutes } from '@muster/protocol'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { followMode, followOptions } from '../operations/follow-options.ts'
import { followStarted } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsUnload = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'unload',
    summary: 'Stop all replicas of a model once their requests are answered',
    details: 'It stays unloaded, also against its minimum and through restarts, until the next load, request or change of its scheduling.',
    arguments: [modelArgument],
    options: followOptions(),
    examples: ['muster models unload tiny'],
    run: async (call) => {
      const mode = followMode(call)
      const params = { name: parseModelName(call.words[0]) }
      const { raw, body } = await call.api.call(modelRoutes.unload, { params, body: {}, idempotencyKey: newId() })
      await followStarted(call, mode, { raw, ids: [body.operation_id] })
    },
  })
