// One blob of a backend from whoever has it.
import type { Clock } from '@muster/host'
import type { Digest } from '@muster/protocol'
import { tryMirrors, type Mirror } from '../storage/ask-mirrors.ts'
import type { Blobs } from '../storage/create-blobs.ts'
import type { FetchOptions } from '../storage/fetch-blob.ts'

export interface MirroredBlob {
  readonly digest: Digest
  /** Null when nobody knows it before the end. */
  readonly size: number | null
  /** Asked in this order. */
  readonly mirrors: readonly Mirror[]
}

export async function fetchFromMirrors(
  { store, clock }: { readonly store: Blobs; readonly clock: Clock },
  { digest, size, mirrors }: MirroredBlob,
  options: FetchOptions,
): Promise<void> {
  await tryMirrors({
    mirrors,
    incomingSize: () => store.incomingSize(digest),
    fetch: (open) => store.fetchBlob({ digest, size, open }, options),
    clock,
    signal: options.signal,
  })
}
