// From what a command asks for to where it comes from: named by the command itself, or looked up in the galleries.
import { chooseBackend, sourceKind, type Gallery, type NodeTraits, type SourceKind } from '@muster/source'
import { FleetError, type BackendName, type Digest, type FailureCode } from '@muster/protocol'
import type { InstallRequest } from '../operations/installer.ts'

/** All that the record of an installed backend says of where it came from. */
export type BackendSource = Readonly<{
  kind: SourceKind
  /** Tried in this order. */
  uris: readonly [string, ...string[]]
  /** Of an archive. */
  sha256: string
  version: string
  isMeta: boolean
  concrete: BackendName | null
  alias: BackendName | null
  galleryUrl: string
}>

/** A gallery, and where it was read. */
export type ListedGallery = Gallery & Readonly<{ url: string }>
export type GalleriesReader = (signal: AbortSignal) => Promise<readonly ListedGallery[]>

/** Why a source can't be one, as far as its text alone tells; null: it can. */
export function sourceProblem({ backend, uri, digest }: Pick<InstallRequest, 'backend' | 'uri' | 'digest'>): string | null {
  if (uri === undefined) return null
  const kind = sourceKind(uri)
  if (kind === null)
    return `${JSON.stringify(uri.slice(0, 200))} is no source for ${backend}: it is oci://…, host/name:tag, https://… or file:///…`
  if (kind === 'archive' && digest === undefined) return `the archive ${JSON.stringify(uri.slice(0, 200))} needs its digest (sha256:…)`
  return null
}

export async function findSource(
  request: InstallRequest,
  { galleries, node, signal }: { galleries: GalleriesReader; node: NodeTraits; signal: AbortSignal },
): Promise<BackendSource> {
  if (request.uri !== undefined) return named(request, request.uri)
  const listed = await galleries(signal)
  const choice = chooseBackend(listed, request.name ?? request.backend, node)
  if (choice.kind !== 'found') throw failure(choice.kind === 'unknown' ? 'not_found' : 'incompatible', choice.reason)
  const { asked, found } = choice
  const { entry } = found
  const kind = sourceKind(entry.uri)
  if (kind === null)
    throw failure('invalid', `${entry.name} of the gallery ${found.gallery.name} names no source: ${JSON.stringify(entry.uri)}`)
  const isMeta = asked.name !== entry.name
  return {
    kind,
    uris: [entry.uri, ...entry.mirrors],
    sha256: entry.sha256,
    version: entry.version,
    isMeta,
    concrete: isMeta ? entry.name : null,
    alias: entry.alias,
    galleryUrl: listed.find(({ name }) => name === found.gallery.name)?.url ?? '',
  }
}

function named({ backend, name, alias, digest }: InstallRequest, uri: string): BackendSource {
  const kind = sourceKind(uri)
  if (kind === null) throw failure('invalid', `${JSON.stringify(uri)} is no source`)
  const isMeta = name !== undefined && name !== backend
  const sha256 = kind === 'archive' ? hexOf(digest) : ''
  return { kind, uris: [uri], sha256, version: '', isMeta, concrete: isMeta ? name : null, alias: alias ?? null, galleryUrl: '' }
}

const hexOf = (digest: Digest | undefined): string => digest?.slice('sha256:'.length) ?? ''

const failure = (code: FailureCode, message: string): FleetError => new FleetError({ code, retry: 'never', message })
