// What the data path asks of whoever brings models up. A load belongs to nobody who waits for it: asking starts one if
// there is none, and going away ends nothing.
import type { Loading, LoadFailure } from '@muster/protocol'

export type LoadStatus =
  | { readonly kind: 'ready' }
  | { readonly kind: 'loading'; readonly loading: Loading }
  | { readonly kind: 'failed'; readonly failure: LoadFailure }
  | { readonly kind: 'no_capacity'; readonly message: string }

export interface ColdLoads {
  /** Somebody asks for it: makes sure that it is coming up, and tells how far that is. */
  ensure(model: string): Promise<LoadStatus>
  status(model: string): Promise<LoadStatus>
}
