// `muster galleries …`: the lists of backends and models that can be installed.
import { type Command, Option } from 'commander'
import { GalleryKind, GalleryName, galleryRoutes, type GalleryView } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { plainText } from '../output/text.ts'
import { listenForInterrupt, type Shell } from '../shell.ts'
import type { CheckedBackend, CheckedGallery } from '../galleries/check-gallery.ts'
import { createPrinter } from '../output/terminal.ts'
import { addCommands, type ClientCommand, collect, collectOptions, createOptionReader, defineCommand, defineGroup } from './command.ts'

export function galleries(parent: Command, shell: Shell): void {
  const group = defineGroup(parent, { name: 'galleries', summary: 'List, add and remove galleries of backends and models' })
  addCommands(group, shell, [galleriesLs, galleriesAdd, galleriesRm])
  galleriesCheck(group, shell)
}

const columns: Column<GalleryView>[] = [
  { heading: 'NAME', cell: (gallery) => gallery.name },
  { heading: 'KIND', cell: (gallery) => gallery.kind },
  { heading: 'FROM', cell: (gallery) => gallery.from },
  { heading: 'ENTRIES', cell: ({ entries }) => (entries === null || entries === undefined ? '-' : String(entries)) },
  { heading: 'LEFT OUT', cell: ({ left_out: leftOut }) => (leftOut === null || leftOut === undefined ? '-' : String(leftOut)) },
  { heading: 'URL', cell: (gallery) => gallery.url, shrinks: true },
]

const galleriesLs: ClientCommand = {
  name: 'ls',
  summary: 'List the galleries, in the order in which a name is looked up',
  run: async ({ api, print }) => {
    const { raw, body } = await api.call(galleryRoutes.list)
    print.result(raw, () => renderTable(columns, body.galleries, print.width))
    const [first] = body.galleries.filter(({ left_out: leftOut }) => (leftOut ?? 0) > 0)
    if (first !== undefined)
      print.remark(plainText(`some entries cannot be read; \`muster galleries check ${first.url} --kind ${first.kind}\` names them`))
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

type AddedGallery = GalleryView & { readonly problem?: string | null | undefined }

/** An older controller does not report whether it can read the gallery. */
function addedText({ name, kind, url, entries, left_out: leftOut, problem }: AddedGallery): string {
  const left =
    (leftOut ?? 0) === 0
      ? ''
      : `; ${leftOut} ${leftOut === 1 ? 'entry' : 'entries'} cannot be read and ${leftOut === 1 ? 'is' : 'are'} left out`
  if (problem === null) return `${name} offers ${entries === 1 ? `1 ${kind}` : `${entries ?? 'some'} ${kind}s`} from ${url}${left}`
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

/** Needs no controller. */
function galleriesCheck(group: Command, shell: Shell): void {
  const command = defineCommand(group, {
    name: 'check',
    summary: 'Read a gallery on this machine, and count the entries that can be used',
    details:
      'Nothing is installed. For models: the valid configurations by backend, and the reason for each other one. For backends: the build of each meta backend by capability.',
    arguments: [['<gallery>', 'a file, https://… or github:owner/repo/path@ref']],
    options: [
      new Option('--kind <kind>', 'what it offers (default: by its keys)').choices(GalleryKind.options),
      new Option('--allow-source <host>', 'a private host (HOST[:PORT] or CIDR) to read from; repeatable').argParser(collect),
      new Option('-o, --output <format>', 'json prints everything').choices(['text', 'json']),
    ],
    examples: ['muster galleries check ./index.yaml', 'muster galleries check github:mudler/LocalAI/gallery/index.yaml@master -o json'],
  })
  command.action(async () => {
    const { option, list } = createOptionReader(collectOptions(command))
    const { checkGallery } = await import('../galleries/check-gallery.ts')
    const print = createPrinter(shell.terminal, option('output') === 'json' ? 'json' : 'text')
    using interruption = listenForInterrupt()
    const kind = GalleryKind.safeParse(option('kind')).data ?? null
    const request = {
      gallery: command.args[0] ?? '',
      kind,
      allowSource: list('allowSource'),
      clock: shell.clock,
      signal: interruption.signal,
    }
    const checked = await checkGallery(request)
    print.result(checked, () => checkedText(checked, print.width))
  })
}

const leftOutColumns: Column<CheckedGallery['left_out_entries'][number]>[] = [
  { heading: 'ENTRY', cell: ({ index }) => String(index + 1) },
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'LEFT OUT', cell: ({ message }) => message, shrinks: true },
]

function checkedText(checked: CheckedGallery, width: number | null): string {
  const { entries, left_out: leftOut, left_out_entries: named } = checked
  const shown = named.length < leftOut ? [`${leftOut - named.length} more entries are left out.`] : []
  const left = leftOut === 0 ? [] : [renderTable(leftOutColumns, named, width), ...shown]
  const counts: [string, string][] = [
    ['Entries', String(entries)],
    ['Left out', String(leftOut)],
  ]
  return checked.kind === 'model' ? modelsText(checked, { counts, left, width }) : backendsText(checked, { counts, left, width })
}

type CheckedText = Readonly<{ counts: [string, string][]; left: readonly string[]; width: number | null }>

function modelsText(checked: Extract<CheckedGallery, { kind: 'model' }>, { counts, left, width }: CheckedText): string {
  const { valid, refused, backends } = checked
  const fields = renderFields([...counts, ['Valid', String(valid)], ['Refused', String(refused.length)]])
  const byBackend: Column<(typeof backends)[number]>[] = [
    { heading: 'BACKEND', cell: ({ backend }) => backend },
    { heading: 'MODELS', cell: ({ models }) => String(models) },
  ]
  const why: Column<(typeof refused)[number]>[] = [
    { heading: 'NAME', cell: ({ name }) => name },
    { heading: 'REFUSED', cell: ({ message }) => message, shrinks: true },
  ]
  const tables = [renderTable(byBackend, backends, width), ...(refused.length === 0 ? [] : [renderTable(why, refused, width)])]
  return [fields, ...tables, ...left].join('\n\n')
}

function backendsText(checked: Extract<CheckedGallery, { kind: 'backend' }>, { counts, left, width }: CheckedText): string {
  const metaColumns: Column<CheckedBackend>[] = [
    { heading: 'META BACKEND', cell: ({ name }) => name },
    { heading: 'BUILDS', cell: buildsText, shrinks: true },
  ]
  const fields = renderFields([...counts, ['Meta backends', String(checked.metas.length)]])
  return [fields, renderTable(metaColumns, checked.metas, width), ...left].join('\n\n')
}

/** `cpu-engine (default, vulkan); nothing (amd)`. */
function buildsText({ builds }: CheckedBackend): string {
  const groups = Map.groupBy(Object.entries(builds), ([, build]) => build ?? 'nothing')
  return [...groups].map(([build, pairs]) => `${build} (${pairs.map(([capability]) => capability).join(', ')})`).join('; ')
}
