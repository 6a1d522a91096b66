// `muster ops watch`.
import type { Command } from 'commander'
import { operationRoutes } from '@muster/protocol'
import { parseOperationId } from '../operations/operation-table.ts'
import { watchOperations } from '../operations/follow-started.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const opsWatch = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'watch',
    summary: 'Follow an operation, or all that are active now, to the end',
    details:
      'On a terminal with a bar per node, otherwise a line per change; with -o json an object per line. Ctrl-C stops watching and nothing else. Ends with 0 done, 1 failed or cancelled, 3 still going on.',
    arguments: [['[operation]', 'its id; without it, all that are active']],
    run: async (call) => {
      const { api, print, words } = call
      const { operations } =
        words[0] === undefined
          ? (await api.call(operationRoutes.list, { query: { state: 'active' } })).body
          : { operations: [(await api.call(operationRoutes.get, { params: { id: parseOperationId(words[0]) } })).body] }
      if (operations.length === 0) return print.remark('nothing is going on')
      await watchOperations(
        call,
        operations.map((operation) => operation.id),
      )
    },
  })
