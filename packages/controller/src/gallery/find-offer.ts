// Which source a backend has for one node, from what the galleries offer. Pure.
import type { BackendName, Digest } from '@muster/protocol'
import { chooseBackend, findBackend, sourceKind } from '@muster/source'
import type { NodeRecord } from '../store/nodes.ts'
import type { Offered } from './catalogue.ts'
import type { Source } from './resolve-source.ts'
import { notOffered, SourceUnavailable } from './source-error.ts'

export type NodeOffer =
  | Readonly<{
      kind: 'source'
      source: Source
      version: string
      /** Empty: from none. */
      galleryUrl: string
      /** Behind a meta backend. */ name: BackendName | null
      alias: BackendName | null
    }>
  /** There is nothing for this node. */
  | Readonly<{ kind: 'unfit'; reason: string }>

export type Named = Readonly<{ backend: BackendName; digest: Digest | null; version: string | null }>

export const isOffered = ({ galleries }: Offered, backend: BackendName): boolean => findBackend(galleries, backend) !== null

/** That no gallery has it is certain only if all could be read. */
export function unknownBackend({ problems }: Offered, backend: BackendName): Error {
  const told = problems.map(({ failure }) => failure.message).join('; ')
  const message = `no gallery offers ${backend}; GET /api/backends/gallery lists what is offered${told === '' ? '' : ` (${told})`}`
  return problems.some(({ failure }) => failure.retry === 'backoff') ? new SourceUnavailable(message) : notOffered(message)
}

/** What is of another kind can't be the same content. */
const isOfKind =
  (uri: string) =>
  (mirror: string): boolean =>
    sourceKind(mirror) === sourceKind(uri)

/** Throws when the version that was asked for is not the one on offer. */
export function findOffer(
  { galleries }: Offered,
  { backend, digest, version }: Named,
  node: Pick<NodeRecord, 'os' | 'arch' | 'capability'>,
): NodeOffer {
  const choice = chooseBackend(galleries, backend, node)
  if (choice.kind !== 'found') return { kind: 'unfit', reason: choice.reason }
  const { entry, gallery } = choice.found
  if (version !== null && entry.version !== version) {
    const has = entry.version === '' ? 'does not say which version it offers' : `offers ${entry.version}`
    throw notOffered(`there is no version ${version} of ${entry.name}: the gallery ${gallery.name} ${has}`)
  }
  return {
    kind: 'source',
    source: { uri: entry.uri, mirrors: entry.mirrors.filter(isOfKind(entry.uri)), sha256: entry.sha256, digest },
    version: entry.version,
    galleryUrl: galleries.find(({ name }) => name === gallery.name)?.url ?? '',
    name: entry.name === backend ? null : entry.name,
    alias: entry.alias,
  }
}
