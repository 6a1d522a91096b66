// `muster ops cancel`.
import type { Command } from 'commander'
import { newId } from '@muster/host'
import { operationRoutes } from '@muster/protocol'
import { stateText, titleOf } from '../operations/describe-operation.ts'
import { operationArgument, parseOperationId } from '../operations/operation-table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const opsCancel = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'cancel',
    summary: 'Call an operation off: no further tries, and what runs is told to stop',
    details: 'What has been done stays done. A node that is away is told when it is back.',
    arguments: [operationArgument],
    run: async ({ api, print, words: [wanted] }) => {
      const id = parseOperationId(wanted)
      const { raw, body } = await api.call(operationRoutes.cancel, { params: { id }, body: {}, idempotencyKey: newId() })
      print.result(raw, () => `${titleOf(body)} (${body.id}) is ${stateText(body)}`)
      if (body.state === 'running' || body.state === 'background')
        print.remark(`the nodes that work on it are told; \`muster ops watch ${body.id}\` shows when they stopped`)
    },
  })
