// The models of all galleries, the built-in one first. Each gallery is read separately: one that cannot be read is reported as a
// problem, and the others count.
import { text } from 'node:stream/consumers'
import type { Clock } from '@muster/host'
import {
  failureOf,
  FleetError,
  type Digest,
  type Failure,
  type ModelConfig,
  type ModelGalleryEntry,
  type ModelName,
} from '@muster/protocol'
import { createModelGalleryReader, type GalleryAddress, type Outbound } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { createPatientReader } from '../gallery/patient-reader.ts'
import { notOffered, SourceUnavailable } from '../gallery/resolve-source.ts'
import { builtinGalleryName } from '../settings.ts'
import { createSharedRun, type SharedRun } from '../shared-run.ts'
import type { GalleryStore } from '../store/galleries.ts'
import { checkConfig, InvalidConfig } from './config.ts'

export interface OfferedModels {
  /** The names of all galleries in lookup order, also of those that cannot be read. */
  readonly order: readonly string[]
  /** In lookup order. If several galleries offer a name, the first one wins, unless a request names another one. */
  readonly models: readonly Readonly<{ gallery: string; entry: ModelGalleryEntry }>[]
  readonly problems: readonly Readonly<{ gallery: string; failure: Failure }>[]
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
      const entries = await read({ name, url })
      return { models: entries.map((entry) => ({ gallery: name, entry })), problems: [] }
    } catch (error) {
      return { models: [], problems: [{ gallery: name, failure: failureOf(error) }] }
    }
  }
  return createSharedRun(async () => {
    const own = (await builtin).models.map((entry) => ({ gallery: builtinGalleryName, entry }))
    const addresses = (await store.list()).filter(({ kind }) => kind === 'model')
    const found = await Promise.all(addresses.map(readOne))
    return {
      order: [builtinGalleryName, ...addresses.map(({ name }) => name)],
      models: [...own, ...found.flatMap(({ models }) => models)],
      problems: found.flatMap(({ problems }) => problems),
    }
  }, clock)
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
export function findModel({ order, models, problems }: OfferedModels, reference: ModelName): ModelConfig {
  const [gallery = '', name = ''] = splitAtFirst(reference)
  if (!order.includes(gallery) || models.some(({ entry }) => entry.name === reference))
    return findFirst({ order, models, problems }, reference)
  const found = models.find((each) => each.gallery === gallery && each.entry.name === name)
  if (found !== undefined) return configOf(found)
  const unread = problems.find((each) => each.gallery === gallery)
  if (unread !== undefined)
    throw new SourceUnavailable(`the gallery ${gallery} cannot be read (${unread.failure.message}); wait until it can be read`)
  throw notOffered(`the gallery ${gallery} does not offer a model ${name}; GET /api/models/gallery lists all offered models`)
}

const splitAtFirst = (reference: string): string[] => [/^[^@]*/.exec(reference)?.[0] ?? '', reference.replace(/^[^@]*@?/, '')]

function findFirst({ order, models, problems }: OfferedModels, name: ModelName): ModelConfig {
  const found = models.find(({ entry }) => entry.name === name)
  if (found !== undefined) {
    const { gallery } = found
    const earlier = problems.find((each) => order.indexOf(each.gallery) < order.indexOf(gallery))
    if (earlier === undefined) return configOf(found)
    const what = `the gallery ${earlier.gallery} comes before ${gallery}, which offers ${name}, and cannot be read`
    throw new SourceUnavailable(`${what} (${earlier.failure.message}); wait until it can be read, remove it, or install ${gallery}@${name}`)
  }
  const unread = problems.map(({ gallery, failure }) => `${gallery} (${failure.message})`).join('; ')
  const beside = unread === '' ? '' : `; these cannot be read now: ${unread}`
  const message = `no gallery offers a model ${name}${beside}; GET /api/models/gallery lists all offered models`
  throw problems.some(({ failure }) => failure.retry === 'backoff') ? new SourceUnavailable(message) : notOffered(message)
}

/** Files of the entry and of its configuration; for equal names the configuration wins. */
function configOf({ gallery, entry }: OfferedModels['models'][number]): ModelConfig {
  const own = Array.isArray(entry.config['files']) ? (entry.config['files'] as { filename?: unknown }[]) : []
  const named = new Set(own.map((file) => file.filename))
  const files = [...entry.files.filter(({ filename }) => !named.has(filename)), ...own]
  try {
    return checkConfig({ ...entry.config, name: entry.name, files }, { name: entry.name, lineOf: () => null })
  } catch (error) {
    if (!(error instanceof InvalidConfig)) throw error
    const message = `invalid configuration of ${entry.name} in the gallery ${gallery}: ${error.message}`
    throw new FleetError({ code: 'invalid', retry: 'never', message }, { cause: error })
  }
}
