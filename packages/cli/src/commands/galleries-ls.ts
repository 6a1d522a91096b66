// `muster galleries ls`.
import type { Command } from 'commander'
import { galleryRoutes, type GalleryView } from '@muster/protocol'
import { type Column, renderTable } from '../output/table.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

const columns: Column<GalleryView>[] = [
  { heading: 'NAME', cell: (gallery) => gallery.name },
  { heading: 'KIND', cell: (gallery) => gallery.kind },
  { heading: 'FROM', cell: (gallery) => gallery.from },
  { heading: 'URL', cell: (gallery) => gallery.url, shrinks: true },
]

export const galleriesLs = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'ls',
    summary: 'List the galleries, in the order in which a name is looked up',
    run: async ({ api, print }) => {
      const { raw, body } = await api.call(galleryRoutes.list)
      print.result(raw, () => renderTable(columns, body.galleries, print.width))
    },
  })
