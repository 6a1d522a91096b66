// The catalogue: backends of all galleries, the built-in one first. Galleries are read independently: one that cannot be read
// becomes a problem, and the others still count. Also finds the source that a backend has for one node.
import { text } from 'node:stream/consumers'
import { type Clock, withDeadline } from '@muster/host'
import { type BackendName, type Digest, type Failure, failureOf } from '@muster/protocol'
import {
  chooseBackend,
  createGalleryReader,
  findBackend,
  type Gallery,
  type GalleryAddress,
  type Lookup,
  type Outbound,
  sourceKind,
} from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { createSharedRun, type SharedRun } from '../shared-run.ts'
import type { GalleryStore } from '../store/galleries.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { notOffered, type Source, SourceUnavailable } from './resolve-source.ts'

export interface CatalogueProblem {
  readonly gallery: string
  readonly url: string
  readonly failure: Failure
  /** The index of the first readable gallery that comes after it. */
  readonly precedes: number
  /** The names that it may still offer; null: any. */
  readonly names: readonly string[] | null
}

type UnreadGallery = Pick<CatalogueProblem, 'gallery' | 'url' | 'failure'>
export type ListedGallery = Gallery & { readonly url: string }

export interface Offers {
  /** In lookup order. */
  readonly galleries: readonly ListedGallery[]
  readonly problems: readonly CatalogueProblem[]
}

/** As of now, or no older than `maxAgeMs`. */
export type Catalogue = SharedRun<Offers>

export interface CatalogueDeps {
  readonly galleries: Pick<GalleryStore, 'list'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly outbound: Outbound
  readonly stopping: AbortSignal
  readonly clock: Clock
}

const galleryTimeoutMs = 10_000

export function createCatalogue({ galleries: store, builtin, outbound, stopping, clock }: CatalogueDeps): Catalogue {
  const read = createGalleryReader({ outbound, readBuiltin: async (digest) => await textOf(await builtin, digest) })
  const addresses = async () => [(await builtin).gallery, ...(await store.list()).filter(({ kind }) => kind === 'backend')]

  const readOne = async ({ name, url }: GalleryAddress): Promise<ListedGallery | UnreadGallery> => {
    const limit = { clock, ms: galleryTimeoutMs, what: `reading the gallery ${name}`, signal: stopping }
    try {
      return { ...(await withDeadline(limit, (signal) => read({ name, url }, signal))), url }
    } catch (error) {
      return { gallery: name, url, failure: failureOf(error) }
    }
  }
  return createSharedRun(async () => {
    const found = await Promise.all((await addresses()).map(readOne))
    const [galleries, problems]: [ListedGallery[], CatalogueProblem[]] = [[], []]
    for (const each of found) {
      if ('failure' in each) problems.push({ ...each, precedes: galleries.length, names: null })
      else galleries.push(each)
    }
    return { galleries, problems: [...problems, ...builtinProblems(await builtin)] }
  }, clock)
}

/** While backends are being assembled, an unknown name may still appear. */
function builtinProblems(builtin: BuiltinBlobs): CatalogueProblem[] {
  const names = builtin.missing()
  if (names.length === 0) return []
  const { name: gallery, url } = builtin.gallery
  const message = `${names.join(', ')} will be offered in a moment: the first start assembles it`
  return [{ gallery, url, failure: { code: 'unavailable', retry: 'backoff', message }, precedes: 0, names }]
}

async function textOf(builtin: BuiltinBlobs, digest: Digest): Promise<string> {
  const size = (await builtin.size(digest)) ?? 0
  return size === 0 ? '' : await text(builtin.open(digest, { start: 0, end: size - 1 }))
}

export type NodeOffer =
  | Readonly<{
      kind: 'source'
      source: Source
      version: string
      /** Empty: not from a gallery. */
      galleryUrl: string
      /** The backend behind a meta backend. */ name: BackendName | null
      alias: BackendName | null
    }>
  /** `unfit`: no offer fits this node. `unread`: the offer is unknown until a gallery can be read. */
  | Readonly<{ kind: 'unfit' | 'unread'; reason: string }>

type BackendQuery = Readonly<{ backend: BackendName; digest: Digest | null; version: string | null }>

export const isOffered = ({ galleries }: Offers, backend: BackendName): boolean => findBackend(galleries, backend) !== null

/** Certain only if all galleries could be read. */
export function unknownBackend({ problems }: Offers, backend: BackendName): Error {
  const reasons = problems.map(({ failure }) => failure.message).join('; ')
  const message = `no gallery offers ${backend}; GET /api/backends/gallery lists what is offered${reasons === '' ? '' : ` (${reasons})`}`
  return problems.some(({ failure }) => failure.retry === 'backoff') ? new SourceUnavailable(message) : notOffered(message)
}

/** The reason why a lookup is uncertain: a gallery that comes before the found entry cannot be read. */
function unreadReason({ galleries, problems }: Offers, lookups: readonly Lookup[]): string | null {
  for (const { name, gallery } of lookups) {
    const index = gallery === null ? Infinity : galleries.findIndex((each) => each.name === gallery.name)
    const unread = problems.find(({ precedes, names }) => precedes <= index && (names?.includes(name) ?? true))
    if (unread === undefined) continue
    const order = gallery === null ? `may offer ${name}` : `comes before ${gallery.name}, which offers ${name}`
    const what = `the gallery ${unread.gallery} ${order}, and cannot be read (${unread.failure.message})`
    return `${what}; wait until it can be read, or remove it`
  }
  return null
}

/** A source of another kind cannot have the same content. */
const isOfKind =
  (uri: string) =>
  (mirror: string): boolean =>
    sourceKind(mirror) === sourceKind(uri)

/** Throws when the requested version is not offered. */
export function findOffer(
  offers: Offers,
  { backend, digest, version }: BackendQuery,
  node: Pick<NodeRecord, 'os' | 'arch' | 'capability'>,
): NodeOffer {
  const { galleries } = offers
  const choice = chooseBackend(galleries, backend, node)
  const unread = unreadReason(offers, choice.lookups)
  if (unread !== null) return { kind: 'unread', reason: unread }
  if (choice.kind !== 'found') return { kind: 'unfit', reason: choice.reason }
  const { entry, gallery } = choice.found
  if (version !== null && entry.version !== version) {
    const has = entry.version === '' ? 'lists no version' : `offers ${entry.version}`
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
