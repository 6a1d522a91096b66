// `muster ops ls`.
import { type Command, Option } from 'commander'
import { OperationFilter, operationRoutes } from '@muster/protocol'
import { operationColumns } from '../operations/operation-table.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const opsLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List operations, the newest first',
    options: [new Option('--state <state>', 'active: running and in the background').choices(OperationFilter.options).default('active')],
    examples: ['muster ops ls --state finished'],
    run: async ({ api, print, option }) => {
      const state = OperationFilter.parse(option('state'))
      const { raw, body } = await api.call(operationRoutes.list, { query: { state } })
      if (print.format === 'text' && body.operations.length === 0)
        return print.remark(state === 'active' ? 'nothing is going on; `muster ops ls --state all` shows what was' : 'no operations')
      print.result(raw, () => renderTable(operationColumns(shell.clock), body.operations, print.width))
    },
  })
