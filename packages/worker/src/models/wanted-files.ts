// The files that a load command requests, checked before anything is fetched: names stay inside the model's folder and are
// unique, and every source is of a known kind.
import { Digest, FleetError, ModelFileName, type ModelFile } from '@muster/protocol'
import { parseModelUri, type ModelUri } from '@muster/source'

export interface WantedFile {
  readonly filename: string
  /** As configured; identifies the content until its digest is known. */
  readonly uri: string
  readonly source: ModelUri
  /** Null accepts any content of the source. */
  readonly digest: Digest | null
  readonly size: number | null
  /** An archive, to be unpacked in its folder. */
  readonly unpack: boolean
  readonly peers: NonNullable<ModelFile['peers']>
}

/** The limit of common file systems for one part of a path. */
const longestPartBytes = 255

export function parseWantedFiles(files: readonly ModelFile[]): readonly WantedFile[] {
  const names = new Set<string>()
  const folders = new Set<string>()
  return files.map((file) => {
    const filename = parseName(file.filename)
    const parts = filename.split('/')
    const parents = parts.slice(1).map((_, depth) => parts.slice(0, depth + 1).join('/'))
    if (names.has(filename)) throw invalid(`two files have the name ${quote(filename)}`)
    if (folders.has(filename) || parents.some((folder) => names.has(folder)))
      throw invalid(`${quote(filename)} is both a file and a folder`)
    names.add(filename)
    for (const folder of parents) folders.add(folder)
    const source = parseModelUri(file.uri)
    return {
      filename,
      uri: file.uri,
      source,
      digest: digestOf(file, source),
      size: file.size ?? null,
      unpack: file.unpack ?? false,
      peers: file.peers ?? [],
    }
  })
}

function parseName(text: string): string {
  const name = ModelFileName.safeParse(text)
  if (!name.success) throw invalid(`invalid file name ${quote(text)}: ${name.error.issues[0]?.message ?? 'malformed'}`)
  if (name.data.split('/').some((part) => Buffer.byteLength(part) > longestPartBytes))
    throw invalid(`invalid file name ${quote(text)}: a part is longer than ${longestPartBytes} bytes`)
  return name.data
}

function digestOf({ filename, sha256 }: ModelFile, source: ModelUri): Digest | null {
  const configured = sha256 === undefined ? null : Digest.parse(`sha256:${sha256}`)
  const named = source.kind === 'builtin' || source.kind === 'upload' ? source.digest : null
  if (configured !== null && named !== null && configured !== named)
    throw new FleetError({
      code: 'integrity',
      retry: 'never',
      message: `${quote(filename)} is configured as ${configured}, but its uri names ${named}`,
    })
  return configured ?? named
}

const quote = (name: string): string => JSON.stringify(name.slice(0, 200))

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })
