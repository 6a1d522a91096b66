// Parses the text of a gallery of models. Bounded and refused like one of backends; the configuration of an entry is
// validated when it is installed.
import { FleetError, ModelGalleryEntry } from '@muster/protocol'
import { galleryLimits, type ParseOptions } from './parse-gallery.ts'
import { isObject, readYaml } from './yaml-value.ts'

/** Throws FleetError `invalid` with the reason. */
export function parseModelGallery(text: string, { name = 'the gallery', origin = 'remote' }: ParseOptions = {}): ModelGalleryEntry[] {
  const value = readYaml(text, name, { ...galleryLimits, scalars: 'typed' })
  if (!Array.isArray(value)) throw refusal(name, 'a gallery is a list of models')
  if (value.length > galleryLimits.maxEntries)
    throw refusal(name, `it lists ${value.length} models; at most ${galleryLimits.maxEntries} are read`)
  return value.map((item: unknown, index) => parseEntry(item, { name, isRemote: origin === 'remote', index }))
}

function parseEntry(item: unknown, { name, isRemote, index }: { name: string; isRemote: boolean; index: number }): ModelGalleryEntry {
  const parsed = ModelGalleryEntry.safeParse(item)
  const title = titleOf(item, index)
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    throw refusal(name, `${title}: ${[issue?.path.join('.'), issue?.message].filter((part) => part !== '').join(': ')}`)
  }
  const own = parsed.data.files.find(({ uri }) => isRemote && /^(?:file|builtin|upload):/.test(uri))
  // A remote gallery may not name files of the worker's machine.
  if (own !== undefined) throw refusal(name, `${title}: ${own.uri} is not for a gallery from elsewhere to name`)
  return parsed.data
}

const titleOf = (item: unknown, index: number): string =>
  isObject(item) && typeof item['name'] === 'string' ? `entry ${index + 1} (${item['name'].slice(0, 200)})` : `entry ${index + 1}`

function refusal(name: string, problem: string): FleetError {
  return new FleetError({ code: 'invalid', retry: 'never', message: `cannot read ${name}: ${problem}` })
}
