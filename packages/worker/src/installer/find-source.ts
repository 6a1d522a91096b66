// From what a command asks for to where it comes from: named by the command itself, or looked up in the galleries.
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

/** All that the record of an installed backend says of where it came from. */
export type BackendSource = Readonly<{
  kind: SourceKind
  /** Tried in this order. */
  uris: readonly [string, ...string[]]
  /** What comes from there is held to it; null: whatever its name means now. */
  digest: Digest | null
  version: string
  isMeta: boolean
  concrete: BackendName | null
  alias: BackendName | null
  galleryUrl: string
}>

/** A gallery that the cluster knows. */
export type OfferedGallery = Readonly<{ name: string; url: string; read: (signal: AbortSignal) => Promise<Gallery> }>

/** Why a source can't be one, as far as its text alone tells; null: it can. */
export function sourceProblem(request: Pick<InstallRequest, 'backend' | 'uri' | 'mirrors' | 'digest'>): string | null {
  const { backend, uri, digest } = request
  if (uri === undefined) return null
  const kind = sourceKind(uri)
  if (kind === null)
    return `${JSON.stringify(uri.slice(0, 200))} is no source for ${backend}: it is oci://…, host/name:tag, https://… or file:///…`
  if (kind === 'archive' && digest === undefined) return `the archive ${JSON.stringify(uri.slice(0, 200))} needs its digest (sha256:…)`
  const other = request.mirrors?.find((mirror) => sourceKind(mirror) !== kind)
  if (other !== undefined) return `${JSON.stringify(other.slice(0, 200))} is no mirror of ${uri}: it is another kind of source`
  if (kind === 'builtin' && parseBuiltinUri(uri) === null)
    return `${JSON.stringify(uri.slice(0, 200))} is no backend of Muster's own: it is builtin://NAME@sha256:…`
  return null
}

export async function findSource(
  request: InstallRequest,
  { galleries, node, signal }: { galleries: readonly OfferedGallery[]; node: NodeTraits; signal: AbortSignal },
): Promise<BackendSource> {
  if (request.uri !== undefined) return sourceOfRequest(request, request.uri)
  const choice = await searchGalleries(request.name ?? request.backend, { galleries, node, signal })
  if (choice.kind !== 'found') throw failure(choice.kind === 'unknown' ? 'not_found' : 'incompatible', choice.reason)
  const { asked, found } = choice
  const { entry } = found
  const kind = sourceKind(entry.uri)
  if (kind === null)
    throw failure('invalid', `${entry.name} of the gallery ${found.gallery.name} names no source: ${JSON.stringify(entry.uri)}`)
  const isMeta = asked.name !== entry.name
  const isPinned = kind === 'builtin' && request.digest !== undefined
  return {
    kind,
    uris: isPinned ? [formatBuiltinUri({ name: entry.name, digest: request.digest })] : [entry.uri, ...entry.mirrors],
    // The wish is about one version, also when the gallery has moved on.
    digest: request.digest ?? digestIn(entry.sha256, kind),
    // Muster's own say their version themselves, and an earlier one may be asked for.
    version: kind === 'builtin' ? '' : entry.version,
    isMeta,
    concrete: isMeta ? entry.name : null,
    alias: entry.alias,
    galleryUrl: galleries.find(({ name }) => name === found.gallery.name)?.url ?? '',
  }
}

/** In the order of trust, and no further than needed: one that can't be reached is no reason to miss what another offers before it. */
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
  if (kind === null) throw failure('invalid', `${JSON.stringify(uri)} is no source`)
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

/** An image has its own way to say it. */
const digestIn = (sha256: string, kind: SourceKind): Digest | null =>
  sha256 === '' || kind === 'oci' ? null : Digest.parse(`sha256:${sha256}`)

const failure = (code: FailureCode, message: string): FleetError => new FleetError({ code, retry: 'never', message })
