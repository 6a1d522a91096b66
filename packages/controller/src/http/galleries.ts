// /api/galleries: the galleries of backends and models.
import { type Failure, type GalleryKind, galleryRoutes as routes } from '@muster/protocol'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
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
  readonly catalogues: Readonly<
    Record<GalleryKind, () => Promise<{ problems: readonly Readonly<{ gallery: string; failure: Failure }>[] }>>
  >
}

export function galleryEndpoints({ galleries, builtin, catalogues }: GalleryDeps): Endpoint[] {
  return [
    endpoint(routes.list, async () => {
      const own = { ...(await builtin).gallery, from: 'builtin' as const, created_at: null }
      return { galleries: [own, ...(await galleries.list())] }
    }),
    endpoint(routes.put, async ({ params: { name }, body }) => {
      const view = name === builtinGalleryName ? null : await galleries.put({ name, ...body })
      if (view === null) throw ownedElsewhere(name)
      // It is stored in any case: a gallery may become readable later.
      const { problems } = await catalogues[view.kind]()
      return { ...view, problem: problems.find(({ gallery }) => gallery === name)?.failure.message ?? null }
    }),
    endpoint(routes.remove, async ({ params: { name } }) => {
      const outcome = name === builtinGalleryName ? 'setting' : await galleries.remove(name)
      if (outcome === 'setting') throw ownedElsewhere(name)
      if (outcome === 'unknown') throw notFound(`gallery ${name} does not exist; GET /api/galleries lists all galleries`)
    }),
  ]
}
