// `muster ops show`.
import type { Command } from 'commander'
import { operationRoutes } from '@muster/protocol'
import { operationArgument, parseOperationId, renderOperation } from '../operations/operation-table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const opsShow = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'show',
    summary: 'Show an operation, and how it stands on each node',
    arguments: [operationArgument],
    run: async ({ api, print, words: [wanted] }) => {
      const { raw, body } = await api.call(operationRoutes.get, { params: { id: parseOperationId(wanted) } })
      print.result(raw, () => renderOperation(body, { now: shell.clock.now(), width: print.width }))
    },
  })
