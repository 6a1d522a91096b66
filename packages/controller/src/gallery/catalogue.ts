// The catalogue: backends of all galleries, the built-in one first. Galleries are read independently: one that cannot be read
// becomes a problem, and the others still count. Also finds the source that a backend has for one node.
import { text } from 'node:stream/consumers'
import type { Clock } from '@muster/host'
import { type BackendName, type Digest, type Failure, failureOf } from '@muster/protocol'
import {
  chooseBackend,
  createGalleryReader,
  findBackend,
  leftOutText,
  type Gallery,
  type GalleryAddress,
  type Lookup,
  type Outbound,
  parseBuiltinUri,
  sourceKind,
} from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { createSharedRun, type SharedRun } from '../shared-run.ts'
import type { GalleryStore } from '../store/galleries.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { createPatientReader } from './patient-reader.ts'
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

export function createCatalogue({ galleries: store, builtin, outbound, stopping, clock }: CatalogueDeps): Catalogue {
  const readBuiltin = async (digest: Digest): Promise<string> => await textOf(await builtin, digest)
  const read = createPatientReader({ read: createGalleryReader({ outbound, readBuiltin }), stopping, clock })
  const addresses = async () => [(await builtin).gallery, ...(await store.list()).filter(({ kind }) => kind === 'backend')]

  const readOne = async ({ name, url }: GalleryAddress): Promise<ListedGallery | UnreadGallery> => {
    try {
      return { ...(await read({ name, url })), url }
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
      /** It is an entry of a gallery. */
      isListed: boolean
    }>
  /** `unfit`: no offer fits this node. `unread`: the offer is unknown until a gallery can be read. */
  | Readonly<{ kind: 'unfit' | 'unread'; reason: string }>

/** `gallery`: the only one to look in; null: all, in their order. */
type EntryQuery = Readonly<{ backend: BackendName; gallery: string | null }>
type BackendQuery = EntryQuery & Readonly<{ digest: Digest | null; version: string | null }>

const referenceOf = ({ backend, gallery }: EntryQuery): string => (gallery === null ? backend : `${gallery}@${backend}`)

export const isOffered = ({ galleries }: Offers, backend: BackendName, gallery: string | null = null): boolean =>
  findBackend(galleries, referenceOf({ backend, gallery })) !== null

/** Certain only if all galleries could be read. */
export function unknownBackend(offers: Offers, backend: BackendName, gallery: string | null = null): Error {
  if (gallery !== null) return unknownIn(offers, { backend, gallery })
  const { problems } = offers
  const reasons = problems.map(({ failure }) => failure.message).join('; ')
  const message = `no gallery offers ${backend}${leftOutText(offers.galleries, backend)}; GET /api/backends/gallery lists what is offered${reasons === '' ? '' : ` (${reasons})`}`
  return problems.some(({ failure }) => failure.retry === 'backoff') ? new SourceUnavailable(message) : notOffered(message)
}

function unknownIn({ galleries, problems }: Offers, { backend, gallery }: { backend: BackendName; gallery: string }): Error {
  const unread = problems.find((each) => each.gallery === gallery && (each.names?.includes(backend) ?? true))
  if (unread !== undefined) return new SourceUnavailable(`${unreadText(unread)}; wait until it can be read`)
  if (galleries.some(({ name }) => name === gallery))
    return notOffered(`the gallery ${gallery} does not offer ${backend}; GET /api/backends/gallery lists what is offered`)
  return notOffered(`there is no gallery ${gallery}; GET /api/galleries lists all galleries`)
}

const unreadText = ({ gallery, failure }: CatalogueProblem, order = ''): string =>
  `the gallery ${gallery} ${order}cannot be read (${failure.message})`

/** The reason why a lookup is uncertain: a gallery that comes before the found entry cannot be read. */
function unreadReason({ galleries, problems }: Offers, lookups: readonly Lookup[]): string | null {
  for (const { name, gallery } of lookups) {
    const index = gallery === null ? Infinity : galleries.findIndex((each) => each.name === gallery.name)
    const unread = problems.find(({ precedes, names }) => precedes <= index && (names?.includes(name) ?? true))
    if (unread === undefined) continue
    if (gallery === null) return `${unreadText(unread, `may offer ${name}, and `)}; wait until it can be read, or remove it`
    const order = `comes before ${gallery.name}, which offers ${name}, and `
    return `${unreadText(unread, order)}; wait until it can be read, remove it, or install ${gallery.name}@${name}`
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
  { backend, gallery: within, digest, version }: BackendQuery,
  node: Pick<NodeRecord, 'os' | 'arch' | 'capability'>,
): NodeOffer {
  const { galleries } = offers
  const choice = chooseBackend(galleries, referenceOf({ backend, gallery: within }), node)
  const named = within === null || isOffered(offers, backend, within) ? null : unknownBackend(offers, backend, within)
  const unread = named instanceof SourceUnavailable ? named.message : unreadReason(offers, choice.lookups)
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
    isListed: true,
  }
}

/** The name of the gallery at a URL; null when none is there. Built-in galleries of all versions are one. */
export function galleryAt({ galleries, problems }: Offers, url: string): string | null {
  if (url === '') return null
  const isThere = (each: { readonly url: string }): boolean => each.url === url || (isBuiltin(each.url) && isBuiltin(url))
  return galleries.find(isThere)?.name ?? problems.find(isThere)?.gallery ?? null
}

/**
 * The gallery of the build that most nodes have, while it may offer the backend: a load on a further node must not bring the
 * build of another gallery under the same name. Null: any gallery.
 */
export function galleryOfFleet(
  offers: Offers,
  backend: BackendName,
  nodes: readonly Pick<NodeRecord, 'name' | 'inventory'>[],
): string | null {
  const urls = nodes
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap(({ inventory }) => inventory.find(({ name }) => name === backend)?.gallery_url ?? [])
  const counts = [...Map.groupBy(urls, (url) => url)].toSorted(([, a], [, b]) => b.length - a.length)
  const gallery = galleryAt(offers, counts[0]?.[0] ?? '')
  const mayOffer = gallery !== null && (isOffered(offers, backend, gallery) || offers.problems.some((each) => each.gallery === gallery))
  return mayOffer ? gallery : null
}

const isBuiltin = (url: string): boolean => parseBuiltinUri(url) !== null
