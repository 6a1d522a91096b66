// All of /api/models.
import type { Models } from '../models/create-models.ts'
import type { Store } from '../store/store.ts'
import type { Endpoint } from './endpoint.ts'
import { modelEndpoints } from './models.ts'
import { modelWishEndpoints } from './model-wishes.ts'

export function modelApi({ store, models: { show, wake } }: { store: Store; models: Models }): Endpoint[] {
  return [
    ...modelEndpoints({ models: store.models, show, wake }),
    ...modelWishEndpoints({ models: store.models, show, wishes: store.modelWishes, keys: store.wishes, wake }),
  ]
}
