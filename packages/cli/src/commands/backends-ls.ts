// `muster backends ls`.
import type { Command } from 'commander'
import { backendRoutes } from '@muster/protocol'
import { installedColumns } from '../backends/backend-tables.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const backendsLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List what is installed, and where',
    details: 'Nodes that are away are shown as they were last heard of.',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(backendRoutes.list)
      if (print.format === 'text' && body.backends.length === 0)
        return print.remark('nothing is installed: `muster backends gallery` shows what can be, `muster backends install NAME` installs it')
      print.result(raw, () => renderTable(installedColumns, body.backends, print.width))
      if (body.backends.some((backend) => backend.upgrade_available || backend.drift))
        print.remark('`muster backends upgrades` says what differs, `muster backends upgrade --all` upgrades')
    },
  })
