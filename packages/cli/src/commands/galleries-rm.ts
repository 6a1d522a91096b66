// `muster galleries rm`.
import type { Command } from 'commander'
import { GalleryName, galleryRoutes } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const galleriesRm = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'rm',
    summary: 'Forget a gallery; what was installed from it stays',
    arguments: [['<name>', 'its name']],
    examples: ['muster galleries rm localai'],
    run: async ({ api, print, words: [name = ''] }) => {
      const problem = GalleryName.safeParse(name).error
      if (problem !== undefined) throw usageError(problem.issues[0]?.message ?? 'this is not the name of a gallery')
      const { raw } = await api.call(galleryRoutes.remove, { params: { name } })
      print.result(raw, () => `${name} is forgotten`)
    },
  })
