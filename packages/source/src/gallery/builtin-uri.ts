// How what every controller serves by itself is named: `builtin://NAME@sha256:…`. The digest says what it is (of an image:
// its manifest), the name is for people; blobs come from `GET /api/node/:id/blobs/:digest`.
import { Digest } from '@muster/protocol'

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
