// `muster backends upgrades`.
import { type Command, Option } from 'commander'
import { newId } from '@muster/host'
import { backendRoutes } from '@muster/protocol'
import { upgradeColumns } from '../backends/backend-tables.ts'
import { formatAge } from '../output/amounts.ts'
import { plainText } from '../output/plain-text.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const backendsUpgrades = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'upgrades',
    summary: 'List backends that have a newer build, or differ between nodes',
    options: [new Option('--check', 'ask galleries and registries now, instead of showing what was found last')],
    examples: ['muster backends upgrades --check'],
    run: async ({ api, print, flag }) => {
      const { raw, body } = flag('check')
        ? await api.call(backendRoutes.check, { body: {}, idempotencyKey: newId() })
        : await api.call(backendRoutes.upgrades)
      const rows = Object.entries(body.upgrades)
        .map(([name, upgrade]) => ({ name, ...upgrade }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
      const asked = body.checked_at === null ? null : `${formatAge(body.checked_at, shell.clock.now())} ago`
      if (print.format === 'json' || rows.length > 0) print.result(raw, () => renderTable(upgradeColumns, rows, print.width))
      else if (asked !== null) print.remark(`nothing to upgrade; galleries and registries were asked ${asked}`)
      if (asked === null) print.remark('galleries and registries were not asked yet: `muster backends upgrades --check` does it now')
      for (const { backend, message } of body.problems)
        print.remark(plainText(`${backend ?? 'a gallery'} could not be checked: ${message}`))
    },
  })
