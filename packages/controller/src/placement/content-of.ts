// By which digest the content of a model's file is known. Pure.
import { Digest } from '@muster/protocol'

const uploaded = /^upload:(sha256:[0-9a-f]{64})$/

/** Null: by its address alone. */
export function contentOf({ uri, sha256 }: Readonly<{ uri: string; sha256?: string | undefined }>): Digest | null {
  const found = sha256 === undefined ? uploaded.exec(uri)?.[1] : `sha256:${sha256}`
  return Digest.safeParse(found).data ?? null
}
