// Parses the text of a gallery. It comes from third parties, so everything about it is bounded, and an invalid gallery is
// refused as a whole, with the position: half a gallery would look like removed backends.
import { FleetError } from '@muster/protocol'
import { GalleryEntry } from './entry.ts'
import { findUriProblem, type GalleryOrigin } from './source-uri.ts'
import { isObject, readYaml, type YamlValue } from './yaml-value.ts'

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
  const value = readYaml(text, name, galleryLimits)
  if (!Array.isArray(value)) throw refusal(name, 'a gallery is a list of backends')
  if (value.length > galleryLimits.maxEntries)
    throw refusal(name, `it lists ${value.length} backends; at most ${galleryLimits.maxEntries} are read`)
  return (value as YamlValue[]).map((item, index) => parseEntry(item, { name, origin, index }))
}

function parseEntry(item: YamlValue, { name, origin, index }: { name: string; origin: GalleryOrigin; index: number }): GalleryEntry {
  const title =
    isObject(item) && typeof item['name'] === 'string' ? `entry ${index + 1} (${item['name'].slice(0, 128)})` : `entry ${index + 1}`
  const parsed = GalleryEntry.safeParse(item)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw refusal(name, `${title}: ${[issue?.path.join('.'), issue?.message].filter((part) => part !== '').join(': ')}`)
  }
  const entry = parsed.data
  for (const uri of [entry.uri, ...entry.mirrors].filter((each) => each !== '')) {
    const problem = findUriProblem(uri, origin)
    if (problem !== null) throw refusal(name, `${title}: ${problem}`)
  }
  return entry
}

function refusal(name: string, problem: string): FleetError {
  return new FleetError({ code: 'invalid', retry: 'never', message: `cannot read ${name}: ${problem}` })
}
