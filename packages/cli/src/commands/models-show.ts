// `muster models show`.
import type { Command } from 'commander'
import { modelRoutes } from '@muster/protocol'
import { modelArgument, parseModelName } from '../models/model-name.ts'
import { renderModel } from '../models/model-tables.ts'
import { asObject } from '../output/as-object.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show all that is known of one model, and its replicas',
    arguments: [modelArgument],
    examples: ['muster models show tiny', 'muster models show tiny -o json'],
    run: async ({ api, print, words }) => {
      const params = { name: parseModelName(words[0]) }
      const model = await api.call(modelRoutes.get, { params })
      const replicas = await api.call(modelRoutes.replicas, { params })
      print.result({ ...asObject(model.raw), ...asObject(replicas.raw) }, () =>
        renderModel({ model: model.body, replicas: replicas.body.replicas }, { now: shell.clock.now(), width: print.width }),
      )
    },
  })
