// One thing from whoever has it. What breaks off is continued where it ended, at the next one or, when all had their turn,
// at the first again; whoever sends something else is not asked a second time.
import type { Clock } from '@muster/host'
import { type Digest, failureOf, FleetError } from '@muster/protocol'
import type { Blobs, BlobSource, FetchOptions } from './blobs.ts'

export type Mirror = (offset: number) => Promise<BlobSource>

export interface MirroredFetch<T> {
  /** Asked in this order. */
  readonly mirrors: readonly Mirror[]
  /** How much of it is there, verified or not. */
  readonly incomingSize: () => Promise<number>
  readonly fetch: (open: Mirror) => Promise<T>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Less than this in a whole round is no progress: whoever wants more patience keeps a queue. */
const leastGainBytes = 10_000
const pauseMs = 500

export async function tryMirrors<T>({ mirrors, incomingSize, fetch, clock, signal }: MirroredFetch<T>): Promise<T> {
  let asked = [...mirrors]
  for (;;) {
    const before = await incomingSize()
    let first: unknown = null
    for (const open of asked) {
      try {
        return await fetch(open)
      } catch (error) {
        signal.throwIfAborted()
        const { code } = failureOf(error)
        if (!['unavailable', 'integrity', 'not_found', 'invalid'].includes(code)) throw error
        if (code !== 'unavailable') asked = asked.filter((each) => each !== open)
        first ??= error
      }
    }
    const gained = (await incomingSize()) - before
    if (asked.length === 0 || gained < leastGainBytes) throw first
    await clock.sleep(pauseMs, signal)
  }
}

// One blob of a backend from whoever has it.

interface MirroredBlob {
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

/** The first that answers. What can't be mended by asking another (a wrong name, a bad digest) is told by the first. */
export async function firstSuccess<Source, T>(sources: readonly Source[], ask: (source: Source) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const source of sources) {
    try {
      return await ask(source)
    } catch (error) {
      first ??= error
      if (error instanceof FleetError && (error.failure.code === 'cancelled' || error.failure.code === 'incompatible')) throw error
    }
  }
  throw first
}
