// What all galleries of the cluster offer for backends, the built-in one first. Each is read on its own: one that can't be
// read is a problem of its own, and the others still count.
import { text } from 'node:stream/consumers'
import { type Clock, withDeadline } from '@muster/host'
import { failureOf, type Digest, type Failure } from '@muster/protocol'
import { createGalleryReader, type Gallery, type GalleryAddress, type Outbound } from '@muster/source'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import { createSharedRun, type SharedRun } from '../shared-run.ts'
import type { GalleryStore } from '../store/galleries.ts'

export interface CatalogueProblem {
  readonly gallery: string
  readonly url: string
  readonly failure: Failure
}

export type ListedGallery = Gallery & { readonly url: string }

export interface Offered {
  /** In the order in which a name is looked up. */
  readonly galleries: readonly ListedGallery[]
  readonly problems: readonly CatalogueProblem[]
}

/** As of now, or no older than told. */
export type Catalogue = SharedRun<Offered>

export interface CatalogueDeps {
  readonly galleries: Pick<GalleryStore, 'list'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly outbound: Outbound
  readonly stopping: AbortSignal
  readonly clock: Clock
}

const oneMayTakeMs = 10_000

export function createCatalogue({ galleries: store, builtin, outbound, stopping, clock }: CatalogueDeps): Catalogue {
  const read = createGalleryReader({ outbound, readBuiltin: async (digest) => await textOf(await builtin, digest) })
  const addresses = async () => [(await builtin).gallery, ...(await store.list()).filter(({ kind }) => kind === 'backend')]

  const readOne = async ({ name, url }: GalleryAddress): Promise<ListedGallery | CatalogueProblem> => {
    const limit = { clock, ms: oneMayTakeMs, what: `reading the gallery ${name}`, signal: stopping }
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
      if ('failure' in each) problems.push(each)
      else galleries.push(each)
    }
    return { galleries, problems: [...problems, ...unfinished(await builtin)] }
  }, clock)
}

/** Until then nobody can say that a name is unknown. */
function unfinished(builtin: BuiltinBlobs): CatalogueProblem[] {
  const names = builtin.missing()
  if (names.length === 0) return []
  const { name: gallery, url } = builtin.gallery
  const message = `${names.join(', ')} will be offered in a moment: a first start puts it together`
  return [{ gallery, url, failure: { code: 'unavailable', retry: 'backoff', message } }]
}

async function textOf(builtin: BuiltinBlobs, digest: Digest): Promise<string> {
  const size = (await builtin.size(digest)) ?? 0
  return size === 0 ? '' : await text(builtin.open(digest, { start: 0, end: size - 1 }))
}
