// `muster galleries add`.
import { type Command, Option } from 'commander'
import { GalleryKind, GalleryName, galleryRoutes } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { plainText } from '../output/plain-text.ts'
import type { Shell } from '../shell.ts'
import { clientCommand } from './client-command.ts'

export const galleriesAdd = (parent: Command, shell: Shell): Command =>
  clientCommand(parent, shell, {
    name: 'add',
    summary: 'Add a gallery, or give one another address',
    arguments: [
      ['<name>', 'what to call it'],
      ['<url>', 'https://…, http://… (hosts listed with --allow-source), file:///… on each node, or github:owner/repo/path@ref'],
    ],
    options: [new Option('--kind <kind>', 'what it offers').choices(GalleryKind.options).default('backend')],
    examples: ['muster galleries add localai github:mudler/LocalAI/backend/index.yaml@master'],
    run: async ({ api, print, words: [name = '', url = ''], option }) => {
      const body = galleryRoutes.put.body?.safeParse({ url, kind: option('kind') })
      const problem = GalleryName.safeParse(name).error ?? body?.error
      if (body?.success !== true || problem !== undefined) throw usageError(problem?.issues[0]?.message ?? 'this is not a gallery')
      const { raw, body: view } = await api.call(galleryRoutes.put, { params: { name }, body: body.data })
      print.result(raw, () => `${plainText(view.name)} offers ${view.kind}s from ${plainText(view.url)}`)
    },
  })
