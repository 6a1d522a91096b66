// What a command says about a model's files, read once and checked before anything is fetched: names stay inside the
// model's own folder, none is there twice, and every source is of a known kind.
import { Digest, FleetError, ModelFileName, type ModelFile } from '@muster/protocol'
import { parseModelUri, type ModelUri } from '@muster/source'

export interface WantedFile {
  readonly filename: string
  /** As it was written; the name of what comes from there while it has no digest. */
  readonly uri: string
  readonly source: ModelUri
  /** Null: whatever comes from there. */
  readonly digest: Digest | null
  readonly size: number | null
  readonly peers: NonNullable<ModelFile['peers']>
}

/** What every file system takes as one part of a path. */
const longestPartBytes = 255

export function parseWantedFiles(files: readonly ModelFile[]): readonly WantedFile[] {
  const taken = new Set<string>()
  const folders = new Set<string>()
  return files.map((file) => {
    const filename = parseName(file.filename)
    const parts = filename.split('/')
    const above = parts.slice(1).map((_, depth) => parts.slice(0, depth + 1).join('/'))
    if (taken.has(filename)) throw invalid(`two files are called ${quote(filename)}`)
    if (folders.has(filename) || above.some((folder) => taken.has(folder)))
      throw invalid(`${quote(filename)} is the name of a file and of a folder`)
    taken.add(filename)
    for (const folder of above) folders.add(folder)
    const source = parseModelUri(file.uri)
    return { filename, uri: file.uri, source, digest: digestOf(file, source), size: file.size ?? null, peers: file.peers ?? [] }
  })
}

function parseName(text: string): string {
  const name = ModelFileName.safeParse(text)
  if (!name.success) throw invalid(`${quote(text)} is no name of a file: ${name.error.issues[0]?.message ?? 'wrong'}`)
  if (name.data.split('/').some((part) => Buffer.byteLength(part) > longestPartBytes))
    throw invalid(`${quote(text)} is no name of a file: a part of it is longer than ${longestPartBytes} bytes`)
  return name.data
}

function digestOf({ filename, sha256 }: ModelFile, source: ModelUri): Digest | null {
  const given = sha256 === undefined ? null : Digest.parse(`sha256:${sha256}`)
  const named = source.kind === 'builtin' || source.kind === 'upload' ? source.digest : null
  if (given !== null && named !== null && given !== named)
    throw new FleetError({
      code: 'integrity',
      retry: 'never',
      message: `${quote(filename)} should be ${given}, and its uri names ${named}`,
    })
  return given ?? named
}

const quote = (name: string): string => JSON.stringify(name.slice(0, 200))

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })
