// `muster keys …`: API keys; and `muster login-link`.
import { type Command, Option } from 'commander'
import { keyRoutes, type KeyView, loginRoutes, Scope } from '@muster/protocol'
import { findByName } from '../arguments.ts'
import { usageError } from '../cli-error.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { formatAge, plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, defineGroup } from './command.ts'

export function keys(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'keys', summary: 'List, create and revoke API keys' })
  addCommands(group, shell, [keysLs, keysCreate, keysRm])
}

const keyColumns = (now: number): Column<KeyView>[] => [
  { heading: 'NAME', cell: (key) => key.name, shrinks: true },
  { heading: 'ID', cell: (key) => key.id },
  { heading: 'SCOPE', cell: (key) => key.scope },
  { heading: 'AGE', cell: (key) => formatAge(key.created_at, now), align: 'right' },
  { heading: 'LAST USED', cell: (key) => formatAge(key.last_used_at, now), align: 'right' },
]

const keysLs: ClientCommand = {
  name: 'ls',
  summary: 'List the keys, without their secrets',
  run: async ({ shell, api, print }) => {
    const { raw, body } = await api.call(keyRoutes.list)
    if (print.format === 'text' && body.keys.length === 0)
      return print.remark('no keys yet; `muster keys create --name NAME --scope inference` creates one')
    print.result(raw, () => renderTable(keyColumns(shell.clock.now()), body.keys, print.width))
  },
}

const keysCreate: ClientCommand = {
  name: 'create',
  summary: 'Create a key; it is shown once',
  options: [
    new Option('--name <name>', 'what the key is for').makeOptionMandatory(),
    new Option('--scope <scope>', 'inference: use models · read: look at everything · admin: change everything')
      .choices(Scope.options)
      .makeOptionMandatory(),
    new Option('--secret-hash <sha256>', 'store a key that its client already has, by the SHA-256 of the key in hex'),
  ],
  examples: ['muster keys create --name ci --scope inference', 'KEY=$(muster keys create --name ci --scope read -o json | jq -r .key)'],
  run: async ({ api, print, option }) => {
    const request = keyRoutes.create.body?.safeParse({ name: option('name'), scope: option('scope'), secret_hash: option('secretHash') })
    if (request?.success !== true) {
      const isHash = request?.error.issues[0]?.path[0] === 'secret_hash'
      throw usageError(isHash ? '--secret-hash must be 64 lower-case hex digits' : '--name must be 1 to 255 characters')
    }
    const { raw, body } = await api.call(keyRoutes.create, { body: request.data })
    print.result(raw, () =>
      renderFields([
        ['Name', body.name],
        ['Id', body.id],
        ['Scope', body.scope],
        ...(body.key === null ? [] : [['Key', body.key] as const]),
      ]),
    )
    if (body.key !== null) print.remark('store the key now: it is not shown again')
  },
}

const keysRm: ClientCommand = {
  name: 'rm',
  summary: 'Revoke a key',
  arguments: [['<key>', 'its id, or its name if only one key has it']],
  examples: ['muster keys rm ci'],
  run: async ({ api, print, words: [wanted] }) => {
    const { body } = await api.call(keyRoutes.list)
    const key = findByName('key', body.keys, wanted ?? '')
    const { raw } = await api.call(keyRoutes.remove, { params: { id: key.id } })
    print.result(raw, () => `${plainText(key.name)} (${key.id}) is revoked`)
  },
}

export const loginLink: ClientCommand = {
  name: 'login-link',
  summary: 'Create a link that logs a browser in to the UI once',
  examples: ['xdg-open "$(muster login-link)"'],
  run: async ({ api, print }) => {
    const { raw, body } = await api.call(loginRoutes.createLink)
    print.result(raw, () => plainText(body.url))
    print.remark(`it works once, until ${plainText(body.expires_at)}`)
  },
}
