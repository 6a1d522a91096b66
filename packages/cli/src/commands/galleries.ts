// `muster galleries …`: the lists of backends and models that can be installed.
import { type Command, Option } from 'commander'
import { GalleryKind, GalleryName, galleryRoutes, type GalleryView } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { type Column, renderTable } from '../output/table.ts'
import { plainText } from '../output/text.ts'
import type { Shell } from '../shell.ts'
import { addCommands, type ClientCommand, defineGroup } from './command.ts'

export function galleries(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'galleries', summary: 'List, add and remove galleries of backends and models' })
  addCommands(group, shell, [galleriesLs, galleriesAdd, galleriesRm])
}

const columns: Column<GalleryView>[] = [
  { heading: 'NAME', cell: (gallery) => gallery.name },
  { heading: 'KIND', cell: (gallery) => gallery.kind },
  { heading: 'FROM', cell: (gallery) => gallery.from },
  { heading: 'URL', cell: (gallery) => gallery.url, shrinks: true },
]

const galleriesLs: ClientCommand = {
  name: 'ls',
  summary: 'List the galleries, in the order in which a name is looked up',
  run: async ({ api, print }) => {
    const { raw, body } = await api.call(galleryRoutes.list)
    print.result(raw, () => renderTable(columns, body.galleries, print.width))
  },
}

const galleriesAdd: ClientCommand = {
  name: 'add',
  summary: 'Add a gallery, or change its URL',
  arguments: [
    ['<name>', 'its name'],
    ['<url>', 'https://…, http://… (hosts listed with --allow-source), file:///… on each node, or github:owner/repo/path@ref'],
  ],
  options: [new Option('--kind <kind>', 'what it offers').choices(GalleryKind.options).default('backend')],
  examples: ['muster galleries add localai github:mudler/LocalAI/backend/index.yaml@master'],
  run: async ({ api, print, words: [name = '', url = ''], option }) => {
    const body = galleryRoutes.put.body?.safeParse({ url, kind: option('kind') })
    const problem = GalleryName.safeParse(name).error ?? body?.error
    if (body?.success !== true || problem !== undefined) throw usageError(problem?.issues[0]?.message ?? 'this is not a gallery')
    const { raw, body: view } = await api.call(galleryRoutes.put, { params: { name }, body: body.data })
    print.result(raw, () => plainText(addedText(view)))
  },
}

/** An older controller does not report whether it can read the gallery. */
function addedText({ name, kind, url, problem }: GalleryView & { readonly problem?: string | null | undefined }): string {
  if (problem === null) return `${name} offers ${kind}s from ${url}`
  return problem === undefined ? `${name} was added: ${kind}s from ${url}` : `${name} was added, and cannot be read now: ${problem}`
}

const galleriesRm: ClientCommand = {
  name: 'rm',
  summary: 'Remove a gallery; its installed backends and models stay',
  arguments: [['<name>', 'its name']],
  examples: ['muster galleries rm localai'],
  run: async ({ api, print, words: [name = ''] }) => {
    const problem = GalleryName.safeParse(name).error
    if (problem !== undefined) throw usageError(problem.issues[0]?.message ?? 'this is not the name of a gallery')
    const { raw } = await api.call(galleryRoutes.remove, { params: { name } })
    print.result(raw, () => `${name} is removed`)
  },
}
