// One blob from whoever has it. What breaks off is continued where it ended, at the next one or, when all had their turn,
// at the first again; whoever sends something else is not asked a second time.
import type { Clock } from '@muster/host'
import { failureOf, type Digest } from '@muster/protocol'
import type { BackendStore } from '../storage/backend-store.ts'
import type { BlobSource, FetchOptions } from '../storage/fetch-blob.ts'

export interface MirroredBlob {
  readonly digest: Digest
  /** Null when nobody knows it before the end. */
  readonly size: number | null
  /** Asked in this order. */
  readonly mirrors: readonly ((offset: number) => Promise<BlobSource>)[]
}

/** Less than this in a whole round is no progress: whoever wants more patience keeps a queue. */
const leastGainBytes = 10_000
const pauseMs = 500

export async function fetchFromMirrors(
  { store, clock }: { readonly store: BackendStore; readonly clock: Clock },
  { digest, size, mirrors }: MirroredBlob,
  options: FetchOptions,
): Promise<void> {
  let asked = [...mirrors]
  for (;;) {
    const before = await store.incomingSize(digest)
    let first: unknown = null
    for (const open of asked) {
      try {
        return await store.fetchBlob({ digest, size, open }, options)
      } catch (error) {
        options.signal.throwIfAborted()
        const { code } = failureOf(error)
        if (!['unavailable', 'integrity', 'not_found', 'invalid'].includes(code)) throw error
        if (code !== 'unavailable') asked = asked.filter((each) => each !== open)
        first ??= error
      }
    }
    const gained = (await store.incomingSize(digest)) - before
    if (asked.length === 0 || gained < leastGainBytes) throw first
    await clock.sleep(pauseMs, options.signal)
  }
}
