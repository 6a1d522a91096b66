// Parses the text of a gallery of backends or of models. It comes from third parties, so everything about it is bounded, and an
// invalid gallery is refused as a whole, with the position: half a gallery would look like removed backends.
import type { z } from 'zod'
import { FleetError, ModelGalleryEntry } from '@muster/protocol'
import { GalleryEntry } from './entry.ts'
import { findUriProblem, type GalleryOrigin } from './source-uri.ts'
import { isObject, readYaml, type YamlLimits } from './yaml-value.ts'

/** LocalAI's public index has about 1,000 entries in 200 kB. */
export const galleryLimits = { maxBytes: 8 * 1024 * 1024, maxEntries: 10_000, maxValues: 1_000_000, maxDepth: 16 } as const

export interface ParseOptions {
  /** Its name in errors. */
  readonly name?: string
  /** A remote gallery may not name files of the worker's machine. */
  readonly origin?: GalleryOrigin
}

/** Throws FleetError `invalid` with the reason. */
export function parseGallery(text: string, { name = 'the gallery', origin = 'remote' }: ParseOptions = {}): GalleryEntry[] {
  const findProblem = ({ uri, mirrors }: GalleryEntry): string | null => {
    const problems = [uri, ...mirrors].filter((each) => each !== '').map((each) => findUriProblem(each, origin))
    return problems.find((problem) => problem !== null) ?? null
  }
  return parseEntries(text, { name, lists: 'backends', entry: GalleryEntry, findProblem })
}

type EntriesOptions<T> = Readonly<{
  name: string
  lists: 'backends' | 'models'
  entry: z.ZodType<T>
  findProblem: (entry: T) => string | null
}> &
  Pick<YamlLimits, 'scalars'>

export function parseEntries<T>(text: string, { name, lists, entry, findProblem, ...scalars }: EntriesOptions<T>): T[] {
  const value: unknown = readYaml(text, name, { ...galleryLimits, ...scalars })
  if (!Array.isArray(value)) throw refusal(name, `a gallery is a list of ${lists}`)
  if (value.length > galleryLimits.maxEntries)
    throw refusal(name, `it lists ${value.length} ${lists}; at most ${galleryLimits.maxEntries} are read`)
  return value.map((item: unknown, index) => {
    const parsed = entry.safeParse(item)
    const [issue] = parsed.error?.issues ?? []
    const problem = parsed.success
      ? findProblem(parsed.data)
      : [issue?.path.join('.'), issue?.message].filter((part) => part !== '').join(': ')
    if (parsed.success && problem === null) return parsed.data
    throw refusal(name, `${titleOf(item, index)}: ${problem}`)
  })
}

const titleOf = (item: unknown, index: number): string =>
  isObject(item) && typeof item['name'] === 'string' ? `entry ${index + 1} (${item['name'].slice(0, 128)})` : `entry ${index + 1}`

function refusal(name: string, problem: string): FleetError {
  return new FleetError({ code: 'invalid', retry: 'never', message: `cannot read ${name}: ${problem}` })
}

/** Throws FleetError `invalid` with the reason. The configuration of an entry is validated when it is installed. */
export function parseModelGallery(text: string, { name = 'the gallery', origin = 'remote' }: ParseOptions = {}): ModelGalleryEntry[] {
  const findProblem = ({ files }: ModelGalleryEntry): string | null => {
    // A remote gallery may not name files of the worker's machine.
    const own = origin === 'remote' ? files.find(({ uri }) => /^(?:file|builtin|upload):/.test(uri)) : undefined
    return own === undefined ? null : `${own.uri} is not for a gallery from elsewhere to name`
  }
  return parseEntries(text, { name, lists: 'models', entry: ModelGalleryEntry, findProblem, scalars: 'typed' })
}
