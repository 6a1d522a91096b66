// `muster models ls`.
import type { Command } from 'commander'
import { modelRoutes } from '@muster/protocol'
import { modelColumns } from '../models/model-tables.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List the models, and how many of their replicas are ready',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(modelRoutes.list)
      if (print.format === 'text' && body.models.length === 0)
        return print.remark('no models yet: `muster models gallery` shows what is offered, `muster models apply -f FILE` adds your own')
      print.result(raw, () => renderTable(modelColumns(shell.clock), body.models, print.width))
      if (body.models.some((model) => model.failure !== null)) print.remark('`muster models why NAME` says where it could run, and why not')
    },
  })
