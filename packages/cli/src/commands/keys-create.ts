// `muster keys create`.
import { type Command, Option } from 'commander'
import { keyRoutes, Scope } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { renderFields } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const keysCreate = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'create',
    summary: 'Make a key; it is shown once',
    options: [
      new Option('--name <name>', 'what the key is for').makeOptionMandatory(),
      new Option('--scope <scope>', 'inference: use models · read: look at everything · admin: change everything')
        .choices(Scope.options)
        .makeOptionMandatory(),
    ],
    examples: ['muster keys create --name ci --scope inference', 'KEY=$(muster keys create --name ci --scope read -o json | jq -r .key)'],
    run: async ({ api, print, option }) => {
      const request = keyRoutes.create.body?.safeParse({ name: option('name'), scope: option('scope') })
      if (request?.success !== true) throw usageError('--name must be 1 to 255 characters')
      const { raw, body } = await api.call(keyRoutes.create, { body: request.data })
      print.result(raw, () =>
        renderFields([
          ['Name', body.name],
          ['Id', body.id],
          ['Scope', body.scope],
          ['Key', body.key],
        ]),
      )
      print.remark('keep the key now: it is not shown again')
    },
  })
