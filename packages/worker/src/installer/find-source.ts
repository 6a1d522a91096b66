// Finds the source of a requested backend: named by the command, or looked up in the galleries.
import {
  chooseBackend,
  formatBuiltinUri,
  parseBuiltinUri,
  sourceKind,
  type BackendChoice,
  type Gallery,
  type NodeTraits,
  type SourceKind,
} from '@muster/source'
import { Digest, FleetError, type BackendName, type FailureCode } from '@muster/protocol'
import type { InstallRequest } from '../operations/installer.ts'

/** The origin of a backend, as its record stores it. */
export type BackendSource = Readonly<{
  kind: SourceKind
  /** Tried in this order. */
  uris: readonly [string, ...string[]]
  /** The required digest; null accepts the current content of the source. */
  digest: Digest | null
  version: string
  isMeta: boolean
  concrete: BackendName | null
  alias: BackendName | null
  galleryUrl: string
}>

/** A gallery configured in the cluster. */
export type OfferedGallery = Readonly<{ name: string; url: string; read: (signal: AbortSignal) => Promise<Gallery> }>

/** Returns the error in a source, as far as its text shows one, or null. */
export function sourceProblem(request: Pick<InstallRequest, 'backend' | 'uri' | 'mirrors' | 'digest'>): string | null {
  const { backend, uri, digest } = request
  if (uri === undefined) return null
  const kind = sourceKind(uri)
  if (kind === null)
    return `unsupported source ${JSON.stringify(uri.slice(0, 200))} for ${backend}; expected oci://…, host/name:tag, https://… or file:///…`
  if (kind === 'archive' && digest === undefined) return `the archive ${JSON.stringify(uri.slice(0, 200))} needs its digest (sha256:…)`
  const other = request.mirrors?.find((mirror) => sourceKind(mirror) !== kind)
  if (other !== undefined) return `${JSON.stringify(other.slice(0, 200))} cannot mirror ${uri}: it is another kind of source`
  if (kind === 'builtin' && parseBuiltinUri(uri) === null)
    return `invalid built-in source ${JSON.stringify(uri.slice(0, 200))}; expected builtin://NAME@sha256:…`
  return null
}

export async function findSource(
  request: InstallRequest,
  { galleries, node, signal }: { galleries: readonly OfferedGallery[]; node: NodeTraits; signal: AbortSignal },
): Promise<BackendSource> {
  if (request.uri !== undefined) return sourceOfRequest(request, request.uri)
  const choice = await searchGalleries(request.name ?? request.backend, { galleries, node, signal })
  if (choice.kind !== 'found') throw failure(choice.kind === 'unknown' ? 'not_found' : 'incompatible', choice.reason)
  const { requested, found } = choice
  const { entry } = found
  const kind = sourceKind(entry.uri)
  if (kind === null)
    throw failure('invalid', `${entry.name} of the gallery ${found.gallery.name} has an unsupported source: ${JSON.stringify(entry.uri)}`)
  const isMeta = requested.name !== entry.name
  const isPinned = kind === 'builtin' && request.digest !== undefined
  return {
    kind,
    uris: isPinned ? [formatBuiltinUri({ name: entry.name, digest: request.digest })] : [entry.uri, ...entry.mirrors],
    // The requested version wins, also when the gallery offers a newer one.
    digest: request.digest ?? digestIn(entry.sha256, kind),
    // A built-in backend states its version in backend.json, and an earlier one may be requested.
    version: kind === 'builtin' ? '' : entry.version,
    isMeta,
    concrete: isMeta ? entry.name : null,
    alias: entry.alias,
    galleryUrl: galleries.find(({ name }) => name === found.gallery.name)?.url ?? '',
  }
}

/** Reads galleries in order of trust, and no further than needed: an unreachable one does not hide an offer of one before it. */
async function searchGalleries(
  wanted: BackendName,
  { galleries, node, signal }: { galleries: readonly OfferedGallery[]; node: NodeTraits; signal: AbortSignal },
): Promise<BackendChoice> {
  const read: Gallery[] = []
  let choice = chooseBackend(read, wanted, node)
  for (const gallery of galleries) {
    read.push(await gallery.read(signal))
    choice = chooseBackend(read, wanted, node)
    if (choice.kind !== 'unknown') break
  }
  return choice
}

function sourceOfRequest(
  { backend, name, alias, digest, mirrors = [], version = '', galleryUrl = '' }: InstallRequest,
  uri: string,
): BackendSource {
  const kind = sourceKind(uri)
  if (kind === null) throw failure('invalid', `unsupported source ${JSON.stringify(uri)}`)
  const isMeta = name !== undefined && name !== backend
  return {
    kind,
    uris: [uri, ...mirrors],
    digest: digest ?? null,
    version,
    isMeta,
    concrete: isMeta ? name : null,
    alias: alias ?? null,
    galleryUrl,
  }
}

/** An OCI reference carries its own digest. */
const digestIn = (sha256: string, kind: SourceKind): Digest | null =>
  sha256 === '' || kind === 'oci' ? null : Digest.parse(`sha256:${sha256}`)

const failure = (code: FailureCode, message: string): FleetError => new FleetError({ code, retry: 'never', message })
