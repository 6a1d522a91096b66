// Parses the text of a gallery of backends or of models, entry by entry: an entry that cannot be read is left out and named with
// the reason, and the others count. The text comes from third parties, so everything about it is bounded; text that is not a
// list, or beyond a limit, is refused as a whole.
import type { z } from 'zod'
import { FleetError, type LeftOutEntry, ModelGalleryEntry } from '@muster/protocol'
import { readModelEntry } from '../localai/model-entry.ts'
import { GalleryEntry } from './entry.ts'
import { findUriProblem, type GalleryOrigin, namesNodeFile } from './source-uri.ts'
import { isObject, readYamlList, type YamlItem, type YamlLimits } from './yaml-value.ts'

/** LocalAI's public indexes have about 1,000 and 1,700 entries, in 300 kB and 2.4 MB. */
export const galleryLimits = { maxBytes: 8 * 1024 * 1024, maxEntries: 10_000, maxValues: 1_000_000, maxDepth: 16 } as const

/** More are counted, but not named. */
export const mostLeftOut = 200

export interface ParseOptions {
  /** Its name in errors. */
  readonly name?: string
  /** A remote gallery may not name files of the worker's machine. */
  readonly origin?: GalleryOrigin
}

export interface ParsedGallery<T> {
  readonly entries: readonly T[]
  /** In their order, the first ones only. */
  readonly leftOut: readonly LeftOutEntry[]
  /** The number of all entries that are left out. */
  readonly leftOutCount: number
}

/** Throws FleetError `invalid` with the reason when the text is not a gallery at all. */
export function parseGallery(text: string, { name = 'the gallery', origin = 'remote' }: ParseOptions = {}): ParsedGallery<GalleryEntry> {
  const read = (value: unknown): ReadEntry<GalleryEntry> => {
    const parsed = parseEntry(GalleryEntry, value)
    if ('problem' in parsed) return parsed
    const { uri, mirrors } = parsed.entry
    const problems = [uri, ...mirrors].filter((each) => each !== '').map((each) => findUriProblem(each, origin))
    const problem = problems.find((each) => each !== null)
    return problem === undefined || problem === null ? parsed : { problem }
  }
  return parseEntries(text, { name, lists: 'backends', read })
}

/** Throws as parseGallery does. The configuration of an entry is validated when it is installed. */
export function parseModelGallery(
  text: string,
  { name = 'the gallery', origin = 'remote' }: ParseOptions = {},
): ParsedGallery<ModelGalleryEntry> {
  const read = (value: unknown): ReadEntry<ModelGalleryEntry> => {
    const prepared = readModelEntry(value)
    const parsed = 'problem' in prepared ? prepared : parseEntry(ModelGalleryEntry, prepared.entry)
    if ('problem' in parsed || origin === 'local') return parsed
    const own = parsed.entry.files.find(({ uri }) => /^(?:file|builtin|upload):/.test(uri))
    return own === undefined ? parsed : { problem: `${own.uri} ${namesNodeFile}` }
  }
  return parseEntries(text, { name, lists: 'models', read, scalars: 'typed' })
}

type ReadEntry<T> = Readonly<{ entry: T } | { problem: string }>

function parseEntry<T>(schema: z.ZodType<T>, value: unknown): ReadEntry<T> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return { entry: parsed.data }
  const [issue] = parsed.error.issues
  return { problem: [issue?.path.join('.'), issue?.message].filter((part) => part !== '').join(': ') }
}

type EntriesOptions<T> = Readonly<{ name: string; lists: 'backends' | 'models'; read: (value: unknown) => ReadEntry<T> }> &
  Pick<YamlLimits, 'scalars'>

const longestMessage = 500

function parseEntries<T extends { readonly name: string }>(
  text: string,
  { name, lists, read, ...scalars }: EntriesOptions<T>,
): ParsedGallery<T> {
  const items = readYamlList(text, name, { ...galleryLimits, ...scalars })
  if (items === null) throw refusal(name, `a gallery is a list of ${lists}`)
  if (items.length > galleryLimits.maxEntries)
    throw refusal(name, `it lists ${items.length} ${lists}; at most ${galleryLimits.maxEntries} are read`)
  const entries = new Map<string, T>()
  const leftOut: LeftOutEntry[] = []
  for (const [index, item] of items.entries()) {
    const result = 'problem' in item ? item : read(item.value)
    if ('entry' in result && !entries.has(result.entry.name)) entries.set(result.entry.name, result.entry)
    else {
      const message = 'problem' in result ? result.problem : 'an entry before it has the same name; the first one counts'
      leftOut.push({ index, name: titleOf(item), message: message.slice(0, longestMessage) })
    }
  }
  return { entries: [...entries.values()], leftOut: leftOut.slice(0, mostLeftOut), leftOutCount: leftOut.length }
}

const longestTitle = 200

function titleOf(item: YamlItem): string {
  if ('problem' in item) return item.name.slice(0, longestTitle)
  return isObject(item.value) && typeof item.value['name'] === 'string' ? item.value['name'].slice(0, longestTitle) : ''
}

function refusal(name: string, problem: string): FleetError {
  return new FleetError({ code: 'invalid', retry: 'never', message: `cannot read ${name}: ${problem}` })
}
