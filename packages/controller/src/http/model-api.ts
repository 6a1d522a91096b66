// All of /api/models.
import type { Models } from '../models/create-models.ts'
import type { Store } from '../store/store.ts'
import type { Endpoint } from './endpoint.ts'
import { modelEndpoints } from './models.ts'
import { modelUploadEndpoints } from './model-uploads.ts'
import { modelGalleryEndpoints } from './model-gallery.ts'
import { modelWishEndpoints } from './model-wishes.ts'

export function modelApi({ store, models: { show, wake, catalogue, receiveUpload } }: { store: Store; models: Models }): Endpoint[] {
  const wishes = { models: store.models, show, wishes: store.modelWishes, keys: store.wishes, wake }
  return [
    // Before :name, which would be a model called gallery.
    ...modelGalleryEndpoints({ ...wishes, catalogue, list: store.models }),
    ...modelEndpoints({ models: store.models, show, wake }),
    ...modelWishEndpoints(wishes),
    ...modelUploadEndpoints({ models: store.models, receive: receiveUpload, wake }),
  ]
}
