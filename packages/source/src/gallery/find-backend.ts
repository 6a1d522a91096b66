// A backend by its name, over all galleries in their order.
import type { GalleryEntry } from './entry.ts'

export interface Gallery {
  readonly name: string
  readonly entries: readonly GalleryEntry[]
}

export interface FoundBackend {
  readonly gallery: Gallery
  readonly entry: GalleryEntry
}

/** `name`, or `gallery@name` for one gallery's. Of several with one name the first counts: galleries are listed in the order of trust. */
export function findBackend(galleries: readonly Gallery[], wanted: string): FoundBackend | null {
  const at = wanted.indexOf('@')
  const [within, name] = at < 0 ? [null, wanted] : [wanted.slice(0, at), wanted.slice(at + 1)]
  for (const gallery of galleries) {
    if (within !== null && gallery.name !== within) continue
    const entry = gallery.entries.find((each) => each.name === name)
    if (entry !== undefined) return { gallery, entry }
  }
  return null
}
