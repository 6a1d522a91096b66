// /api/galleries: the galleries of backends and models.
import { type Failure, type GalleryKind, galleryRoutes as routes } from '@muster/protocol'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { Offers } from '../gallery/catalogue.ts'
import type { OfferedModels } from '../models/model-catalogue.ts'
import { builtinGalleryName } from '../settings.ts'
import type { GalleryStore } from '../store/galleries.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

const ownedElsewhere = (name: string): HttpError =>
  name === builtinGalleryName
    ? new HttpError(409, 'builtin_gallery', `the gallery ${name} comes with Muster and cannot be changed`)
    : new HttpError(
        409,
        'gallery_is_a_setting',
        `the gallery ${name} is set by --gallery or --model-gallery of a controller; change it there`,
      )

export interface GalleryDeps {
  readonly galleries: GalleryStore
  readonly builtin: Promise<BuiltinBlobs>
  /** Read the galleries of each kind. */
  readonly catalogues: Readonly<Record<GalleryKind, (how?: { maxAgeMs: number }) => Promise<ReadGalleries>>>
}

type GalleryCounts = Readonly<{ entries: number; left_out: number }>

export interface ReadGalleries {
  readonly problems: readonly Readonly<{ gallery: string; failure: Failure }>[]
  /** The galleries that can be read, by name. */
  readonly counts: ReadonlyMap<string, GalleryCounts>
}

export const countBackends = ({ galleries, problems }: Offers): ReadGalleries => ({
  problems,
  counts: new Map(galleries.map(({ name, entries, leftOutCount }) => [name, { entries: entries.length, left_out: leftOutCount }])),
})

export function countModels({ order, models, problems, leftOut }: OfferedModels): ReadGalleries {
  const entries = Map.groupBy(models, ({ gallery }) => gallery)
  const left = new Map(leftOut.map(({ gallery, count }) => [gallery, count]))
  const read = order.filter((name) => !problems.some(({ gallery }) => gallery === name))
  return {
    problems,
    counts: new Map(read.map((name) => [name, { entries: entries.get(name)?.length ?? 0, left_out: left.get(name) ?? 0 }])),
  }
}

/** Repeated lists within this time share one reading. */
const listMaxAgeMs = 5_000
const unknownCounts = { entries: null, left_out: null }

export function galleryEndpoints({ galleries, builtin, catalogues }: GalleryDeps): Endpoint[] {
  return [
    endpoint(routes.list, async () => {
      const own = { ...(await builtin).gallery, from: 'builtin' as const, created_at: null }
      const all = [own, ...(await galleries.list())]
      const kinds = { backend: catalogues.backend({ maxAgeMs: listMaxAgeMs }), model: catalogues.model({ maxAgeMs: listMaxAgeMs }) }
      const read = { backend: await kinds.backend, model: await kinds.model }
      return { galleries: all.map((view) => ({ ...view, ...(read[view.kind].counts.get(view.name) ?? unknownCounts) })) }
    }),
    endpoint(routes.put, async ({ params: { name }, body }) => {
      const view = name === builtinGalleryName ? null : await galleries.put({ name, ...body })
      if (view === null) throw ownedElsewhere(name)
      // It is stored in any case: a gallery may become readable later.
      const { problems, counts } = await catalogues[view.kind]()
      const problem = problems.find(({ gallery }) => gallery === name)?.failure.message ?? null
      return { ...view, ...(counts.get(name) ?? unknownCounts), problem }
    }),
    endpoint(routes.remove, async ({ params: { name } }) => {
      const outcome = name === builtinGalleryName ? 'setting' : await galleries.remove(name)
      if (outcome === 'setting') throw ownedElsewhere(name)
      if (outcome === 'unknown') throw notFound(`gallery ${name} does not exist; GET /api/galleries lists all galleries`)
    }),
  ]
}
