// `muster backends gallery`.
import type { Command } from 'commander'
import { backendRoutes } from '@muster/protocol'
import { offeredColumns } from '../backends/backend-tables.ts'
import { plainText } from '../output/plain-text.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const backendsGallery = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'gallery',
    summary: 'List what the galleries offer, and how many nodes it fits',
    details: 'Why something does not fit a node is in -o json.',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(backendRoutes.gallery)
      if (print.format === 'json' || body.backends.length > 0)
        print.result(raw, () => renderTable(offeredColumns, body.backends, print.width))
      else print.remark('nothing is offered: `muster galleries add NAME URL` adds a gallery')
      for (const { gallery, message } of body.problems) print.remark(plainText(`gallery ${gallery} can't be read: ${message}`))
    },
  })
