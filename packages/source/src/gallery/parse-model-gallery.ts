// Parses the text of a gallery of models. Bounded and refused like one of backends; the configuration of an entry is
// validated when it is installed.
import { ModelGalleryEntry } from '@muster/protocol'
import { parseEntries, type ParseOptions } from './parse-gallery.ts'

/** Throws FleetError `invalid` with the reason. */
export function parseModelGallery(text: string, { name = 'the gallery', origin = 'remote' }: ParseOptions = {}): ModelGalleryEntry[] {
  const findProblem = ({ files }: ModelGalleryEntry): string | null => {
    // A remote gallery may not name files of the worker's machine.
    const own = origin === 'remote' ? files.find(({ uri }) => /^(?:file|builtin|upload):/.test(uri)) : undefined
    return own === undefined ? null : `${own.uri} is not for a gallery from elsewhere to name`
  }
  return parseEntries(text, { name, lists: 'models', entry: ModelGalleryEntry, findProblem, scalars: 'typed' })
}
