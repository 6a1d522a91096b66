// /api/models/gallery and /api/models/install: what galleries offer, and taking it.
import { modelRoutes as routes } from '@muster/protocol'
import { findModel, type ModelCatalogue } from '../models/model-catalogue.ts'
import { revisionOf } from '../models/revision.ts'
import type { ModelStore } from '../store/models.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { submitWish, type Asked, type ModelWishDeps } from './model-wishes.ts'

export interface ModelGalleryDeps extends ModelWishDeps {
  readonly catalogue: ModelCatalogue
  readonly list: Pick<ModelStore, 'list'>
}

export function modelGalleryEndpoints(deps: ModelGalleryDeps): Endpoint[] {
  return [
    endpoint(routes.gallery, async () => {
      const [{ models, problems }, installed] = await Promise.all([deps.catalogue(), deps.list.list()])
      const names = new Set<string>(installed.map(({ name }) => name))
      return {
        models: models.map(({ gallery, entry: { config, files: _files, ...about } }) => ({
          ...about,
          gallery,
          backend: typeof config['backend'] === 'string' ? config['backend'] : '',
          installed: names.has(about.name),
        })),
        problems: problems.map(({ gallery, failure }) => ({ gallery, message: failure.message })),
      }
    }),
    endpoint(routes.install, async ({ body: { model: name }, ...call }) => {
      const wish: Asked['wish'] = async (wished, once) => {
        const config = findModel(await deps.catalogue(), name)
        const outcome = await deps.wishes.install({ ...wished, config, revision: revisionOf(config) }, once)
        if (outcome === 'differs') throw exists(name)
        return outcome
      }
      return await submitWish(call, { name, request: ['model install', name], wish }, deps)
    }),
  ]
}

const exists = (name: string): HttpError =>
  new HttpError(409, 'conflict', `there is a model ${name} already, with another configuration; delete it first, or keep it`)
