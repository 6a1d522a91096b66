// The models of all galleries, the built-in one first. Each gallery is read separately: one that cannot be read is reported as a
// problem, and the others count.
import { text } from 'node:stream/consumers'
import type { Clock } from '@muster/host'
import { failureOf, type Digest, type Failure, type LeftOut, type ModelGalleryEntry } from '@muster/protocol'
import { createModelGalleryReader, type GalleryAddress, type Outbound, type ParsedGallery } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { createPatientReader } from '../gallery/patient-reader.ts'
import { notOffered, SourceUnavailable } from '../gallery/resolve-source.ts'
import { builtinGalleryName } from '../settings.ts'
import { createSharedRun, type SharedRun } from '../shared-run.ts'
import type { GalleryStore } from '../store/galleries.ts'

/** `url`: the address of the gallery. */
export type OfferedEntry = Readonly<{ gallery: string; url: string; entry: ModelGalleryEntry }>

export interface OfferedModels {
  /** The names of all galleries in lookup order, also of those that cannot be read. */
  readonly order: readonly string[]
  /** In lookup order. If several galleries offer a name, the first one wins, unless a request names another one. */
  readonly models: readonly OfferedEntry[]
  readonly problems: readonly Readonly<{ gallery: string; failure: Failure }>[]
  /** Entries that cannot be read, by gallery; galleries without any are not listed. */
  readonly leftOut: readonly LeftOut[]
}
/** As of now, or no older than `maxAgeMs`. */
export type ModelCatalogue = SharedRun<OfferedModels>

export interface ModelCatalogueDeps {
  readonly galleries: Pick<GalleryStore, 'list'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly outbound: Outbound
  readonly stopping: AbortSignal
  readonly clock: Clock
}

export function createModelCatalogue({ galleries: store, builtin, outbound, stopping, clock }: ModelCatalogueDeps): ModelCatalogue {
  const readBuiltin = async (digest: Digest): Promise<string> => await textOf(await builtin, digest)
  const read = createPatientReader({ read: createModelGalleryReader({ outbound, readBuiltin }), stopping, clock })
  const readOne = async ({ name, url }: GalleryAddress): Promise<Omit<OfferedModels, 'order'>> => {
    try {
      const { entries, ...gallery } = await read({ name, url })
      return { models: entries.map((entry) => ({ gallery: name, url, entry })), problems: [], leftOut: leftOutOf({ name, ...gallery }) }
    } catch (error) {
      return { models: [], problems: [{ gallery: name, failure: failureOf(error) }], leftOut: [] }
    }
  }
  return createSharedRun(async () => {
    const own = builtinOffers(await builtin)
    const addresses = (await store.list()).filter(({ kind }) => kind === 'model')
    const found = await Promise.all(addresses.map(readOne))
    return {
      order: [builtinGalleryName, ...addresses.map(({ name }) => name)],
      models: [...own, ...found.flatMap(({ models }) => models)],
      problems: found.flatMap(({ problems }) => problems),
      leftOut: found.flatMap(({ leftOut }) => leftOut),
    }
  }, clock)
}

export const builtinOffers = ({ models, gallery: { url } }: Pick<BuiltinBlobs, 'models' | 'gallery'>): OfferedEntry[] =>
  models.map((entry) => ({ gallery: builtinGalleryName, url, entry }))

/** Empty for a gallery whose entries can all be read. */
export function leftOutOf({ name, leftOut, leftOutCount }: { name: string } & Omit<ParsedGallery<unknown>, 'entries'>): LeftOut[] {
  return leftOutCount === 0 ? [] : [{ gallery: name, count: leftOutCount, entries: [...leftOut] }]
}

async function textOf(builtin: BuiltinBlobs, digest: Digest): Promise<string> {
  const size = (await builtin.size(digest)) ?? 0
  return size === 0 ? '' : await text(builtin.open(digest, { start: 0, end: size - 1 }))
}

/** Each name once. */
export function firstOffers(models: OfferedModels['models']): OfferedModels['models'] {
  const first = new Map(models.toReversed().map((model) => [model.entry.name, model]))
  return models.filter((model) => first.get(model.entry.name) === model)
}

/**
 * `reference`: a name, or `gallery@name` for the entry of one gallery. A name may contain an @ as well, and wins. Throws
 * SourceUnavailable while the model is uncertain because a gallery cannot be read, else FleetError `not_found`.
 */
export function findEntry({ order, models, ...rest }: OfferedModels, reference: string): OfferedEntry {
  const [gallery = '', name = ''] = splitAtFirst(reference)
  if (!order.includes(gallery) || findNamed(models, reference) !== undefined) return findFirst({ order, models, ...rest }, reference)
  const within = models.filter((each) => each.gallery === gallery)
  const found = findNamed(within, name)
  if (found !== undefined) return found
  const unread = rest.problems.find((each) => each.gallery === gallery)
  if (unread !== undefined)
    throw new SourceUnavailable(`the gallery ${gallery} cannot be read (${unread.failure.message}); wait until it can be read`)
  const message = `the gallery ${gallery} does not offer a model ${name}${leftOutText(rest.leftOut, name)}`
  throw notOffered(`${message}; GET /api/models/gallery lists all offered models`)
}

const splitAtFirst = (reference: string): string[] => [/^[^@]*/.exec(reference)?.[0] ?? '', reference.replace(/^[^@]*@?/, '')]

/** LocalAI ignores case, and takes a slash for two underscores. An exact name wins. */
const findNamed = (models: readonly OfferedEntry[], name: string): OfferedEntry | undefined =>
  models.find(({ entry }) => entry.name === name) ?? models.find(({ entry }) => folded(entry.name) === folded(name))

const folded = (name: string): string => name.normalize('NFC').toLowerCase().replaceAll('/', '__')

/** An entry of this name that cannot be read. */
function leftOutText(leftOut: OfferedModels['leftOut'], name: string): string {
  const found = leftOut.flatMap(({ gallery, entries }) => entries.flatMap((each) => (each.name === name ? [{ gallery, ...each }] : [])))
  return found.map(({ gallery, message }) => ` (its entry in ${gallery} cannot be read: ${message})`).join('')
}

function findFirst({ order, models, problems, leftOut }: OfferedModels, name: string): OfferedEntry {
  const found = findNamed(models, name)
  if (found !== undefined) {
    const { gallery } = found
    const earlier = problems.find((each) => order.indexOf(each.gallery) < order.indexOf(gallery))
    if (earlier === undefined) return found
    const what = `the gallery ${earlier.gallery} comes before ${gallery}, which offers ${name}, and cannot be read`
    throw new SourceUnavailable(`${what} (${earlier.failure.message}); wait until it can be read, remove it, or install ${gallery}@${name}`)
  }
  const unread = problems.map(({ gallery, failure }) => `${gallery} (${failure.message})`).join('; ')
  const beside = unread === '' ? '' : `; these cannot be read now: ${unread}`
  const message = `no gallery offers a model ${name}${leftOutText(leftOut, name)}${beside}; GET /api/models/gallery lists all offered models`
  throw problems.some(({ failure }) => failure.retry === 'backoff') ? new SourceUnavailable(message) : notOffered(message)
}
