// `muster models gallery`.
import type { Command } from 'commander'
import { modelRoutes } from '@muster/protocol'
import { offeredModelColumns } from '../models/model-tables.ts'
import { plainText } from '../output/plain-text.ts'
import { renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const modelsGallery = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'gallery',
    summary: 'List the models that the galleries offer',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(modelRoutes.gallery)
      if (print.format === 'json' || body.models.length > 0)
        print.result(raw, () => renderTable(offeredModelColumns, body.models, print.width))
      else print.remark('nothing is offered: `muster galleries add NAME URL --kind model` adds a gallery')
      for (const { gallery, message } of body.problems) print.remark(plainText(`gallery ${gallery} can't be read: ${message}`))
    },
  })
