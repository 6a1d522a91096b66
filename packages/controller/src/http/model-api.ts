// All of /api/models.
import type { ModelName } from '@muster/protocol'
import type { Models } from '../models/create-models.ts'
import type { Store } from '../store/store.ts'
import type { Endpoint } from './endpoint.ts'
import { modelEndpoints } from './models.ts'
import { modelUploadEndpoints } from './model-uploads.ts'
import { modelGalleryEndpoints } from './model-gallery.ts'
import { modelWishEndpoints } from './model-wishes.ts'

export interface ModelApiDeps {
  readonly store: Store
  readonly models: Models
  /** Has the data path know what became of a model, which it would hear a moment later anyway. */
  readonly learn: (model: ModelName) => Promise<void>
}

export function modelApi({ store, models, learn }: ModelApiDeps): Endpoint[] {
  const { show, catalogue, receiveUpload } = models
  /** Whoever has his answer here may ask the model here. What can't be read now is read later. */
  const wake = async (model: ModelName): Promise<void> => {
    models.wake()
    await learn(model).catch(() => undefined)
  }
  const wishes = { models: store.models, show, wishes: store.modelSubmissions, keys: store.submissions, wake }
  return [
    // Before :name, which would be a model called gallery.
    ...modelGalleryEndpoints({ ...wishes, catalogue, list: store.models }),
    ...modelEndpoints({ models: store.models, show, wake }),
    ...modelWishEndpoints(wishes),
    ...modelUploadEndpoints({ models: store.models, receive: receiveUpload, wake }),
  ]
}
