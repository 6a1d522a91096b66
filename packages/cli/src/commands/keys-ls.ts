// `muster keys ls`.
import type { Command } from 'commander'
import { keyRoutes, type KeyView } from '@muster/protocol'
import { formatAge } from '../output/amounts.ts'
import { type Column, renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

const keyColumns = (now: number): Column<KeyView>[] => [
  { heading: 'NAME', cell: (key) => key.name, shrinks: true },
  { heading: 'ID', cell: (key) => key.id },
  { heading: 'SCOPE', cell: (key) => key.scope },
  { heading: 'AGE', cell: (key) => formatAge(key.created_at, now), align: 'right' },
  { heading: 'LAST USED', cell: (key) => formatAge(key.last_used_at, now), align: 'right' },
]

export const keysLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List the keys, without their secrets',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(keyRoutes.list)
      if (print.format === 'text' && body.keys.length === 0)
        return print.remark('no keys: `muster keys create --name NAME --scope inference` makes one')
      print.result(raw, () => renderTable(keyColumns(shell.clock.now()), body.keys, print.width))
    },
  })
