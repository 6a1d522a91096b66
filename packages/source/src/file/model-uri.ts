// Parses the URI of a model's file. Parts that become paths of URLs are decoded and checked here, so that none leads to
// another repository or bucket than the one it names.
import { fileURLToPath } from 'node:url'
import { Digest, FleetError } from '@muster/protocol'
import { parseBuiltinUri } from '../gallery/source-uri.ts'
import { parseReference, type OciReference } from '../oci/reference.ts'

export type ModelUri =
  | Readonly<{ kind: 'web'; url: URL }>
  | Readonly<{ kind: 'hf'; repository: string; revision: string; path: string }>
  | Readonly<{ kind: 's3'; bucket: string; key: string }>
  | Readonly<{ kind: 'oci'; reference: OciReference }>
  | Readonly<{ kind: 'file'; path: string }>
  | Readonly<{ kind: 'builtin'; digest: Digest }>
  | Readonly<{ kind: 'upload'; digest: Digest }>

export function parseModelUri(uri: string): ModelUri {
  const scheme = /^[a-z0-9]+(?=:)/.exec(uri)?.[0]
  const parsed = scheme === undefined ? null : (forms[scheme]?.(uri) ?? null)
  if (parsed !== null) return parsed
  const shown = JSON.stringify(uri.slice(0, 200))
  throw new FleetError({
    code: 'invalid',
    retry: 'never',
    message: `unsupported file URI ${shown}; expected https://…, hf://owner/repo[@revision]/file, oci://host/name:tag, s3://bucket/key or file:///…`,
  })
}

const web = (uri: string): ModelUri | null => {
  const url = URL.parse(uri)
  if (url === null) return null
  url.hash = ''
  return { kind: 'web', url }
}

const forms: Readonly<Record<string, (uri: string) => ModelUri | null>> = {
  https: web,
  http: web,
  hf(uri) {
    const [, repository = '', revision = 'main', rest = ''] =
      /^hf:\/\/([A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95})(?:@([^/]{1,250}))?\/(.+)$/.exec(uri) ?? []
    const [path, branch] = [decoded(rest), decoded(revision)]
    return path === null || branch === null || !isPlain(path) || !isPlain(branch)
      ? null
      : { kind: 'hf', repository, revision: branch, path }
  },
  s3(uri) {
    const [, bucket = '', rest = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/(.+)$/.exec(uri) ?? []
    const key = decoded(rest)
    // A key may have empty parts; `.` and `..` would lead to another bucket.
    return key === null || /(?:^|\/)\.{1,2}(?:\/|$)/.test(key) ? null : { kind: 's3', bucket, key }
  },
  oci: (uri) => ({ kind: 'oci', reference: parseReference(uri) }),
  file(uri) {
    try {
      return { kind: 'file', path: fileURLToPath(uri) }
    } catch {
      return null
    }
  },
  builtin(uri) {
    const parsed = parseBuiltinUri(uri)
    return parsed === null ? null : { kind: 'builtin', digest: parsed.digest }
  },
  upload(uri) {
    const digest = Digest.safeParse(uri.slice('upload:'.length))
    return digest.success ? { kind: 'upload', digest: digest.data } : null
  },
}

const isPlain = (path: string): boolean => path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')

/** Null when it is empty or not valid. */
function decoded(text: string): string | null {
  try {
    const plain = decodeURIComponent(text)
    return plain === '' || /\p{Cc}/u.test(plain) ? null : plain
  } catch {
    return null
  }
}
