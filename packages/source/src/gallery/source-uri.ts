import { Digest } from '@muster/protocol'

// The forms of a source, distinguished by their scheme alone; the content is checked when it is fetched.

/** The author of the uri: a remote gallery, or the administrator of this cluster. */
export type GalleryOrigin = 'remote' | 'local'

export type SourceKind = 'oci' | 'archive' | 'file' | 'builtin'

/** Null: not a source at all. */
export function sourceKind(uri: string): SourceKind | null {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(uri)?.[1]?.toLowerCase()
  switch (scheme) {
    case undefined:
      // host/name:tag. A word with a colon and nothing like a scheme before it is one too.
      return /^[a-z0-9][\w.:/@-]*$/i.test(uri) ? 'oci' : null
    case 'oci':
      return 'oci'
    case 'http':
    case 'https':
      return 'archive'
    case 'file':
      return 'file'
    case 'builtin':
      return 'builtin'
    default:
      return null
  }
}

/** The end of a sentence about a source. */
export const namesNodeFile = 'names a file of the node, which only a gallery on the machine itself may do'

/** The reason why a gallery may not use this source; null when it may. */
export function findUriProblem(uri: string, origin: GalleryOrigin): string | null {
  const shown = JSON.stringify(uri.slice(0, 200))
  // Control characters and spaces end up in requests and logs.
  if (/[^\x21-\x7e]/.test(uri)) return `${shown} has characters that no source has`
  const kind = sourceKind(uri)
  if (kind === null) return `unsupported source ${shown}; expected oci://…, host/name:tag, https://… or file:///…`
  if (kind === 'file' && origin === 'remote') return `${shown} ${namesNodeFile}`
  if (kind === 'builtin' && origin === 'remote') return `${shown} names a built-in backend; only the built-in gallery may do that`
  return null
}

// Built-in content that every controller serves: `builtin://NAME@sha256:…`. The digest identifies it (for an image: its
// manifest), the name is for people; blobs come from `GET /api/node/:id/blobs/:digest`.
export interface BuiltinUri {
  readonly name: string
  readonly digest: Digest
}

export const formatBuiltinUri = ({ name, digest }: BuiltinUri): string => `builtin://${name}@${digest}`

export function parseBuiltinUri(uri: string): BuiltinUri | null {
  const [, name = '', text] = /^builtin:\/\/([A-Za-z0-9][A-Za-z0-9._+-]{0,127})@(sha256:[0-9a-f]{64})$/.exec(uri) ?? []
  const digest = Digest.safeParse(text)
  return digest.success ? { name, digest: digest.data } : null
}
