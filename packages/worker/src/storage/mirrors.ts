// Fetches one blob or document from several sources that offer the same content.
import type { Clock } from '@muster/host'
import { failureOf, FleetError, type Digest } from '@muster/protocol'
import type { Blobs, BlobSource, FetchOptions } from './blobs.ts'

export type Mirror = (offset: number) => Promise<BlobSource>

export interface MirroredFetch<T> {
  /** Tried in this order. */
  readonly mirrors: readonly Mirror[]
  /** Bytes received so far, verified or not. */
  readonly incomingSize: () => Promise<number>
  readonly fetch: (open: Mirror) => Promise<T>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** A round of all mirrors that gains less than this is no progress, and the fetch fails. */
const leastGainBytes = 10_000
const pauseMs = 500

/**
 * Resumes a broken download at the next mirror and, after the last one, at the first again. A mirror that sends wrong
 * content, or does not have it, is not tried a second time. Throws the first error that another attempt may mend; else the first.
 */
export async function tryMirrors<T>({ mirrors, incomingSize, fetch, clock, signal }: MirroredFetch<T>): Promise<T> {
  let candidates = [...mirrors]
  for (;;) {
    const before = await incomingSize()
    let first: unknown = null
    for (const open of candidates) {
      try {
        return await fetch(open)
      } catch (error) {
        signal.throwIfAborted()
        const { code, retry } = failureOf(error)
        if (!['unavailable', 'integrity', 'not_found', 'invalid'].includes(code)) throw error
        if (code !== 'unavailable') candidates = candidates.filter((each) => each !== open)
        if (first === null || (retry === 'backoff' && failureOf(first).retry === 'never')) first = error
      }
    }
    const gained = (await incomingSize()) - before
    if (candidates.length === 0 || gained < leastGainBytes) throw first
    await clock.sleep(pauseMs, signal)
  }
}

interface MirroredBlob {
  readonly digest: Digest
  /** Null when the size is not known in advance. */
  readonly size: number | null
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

/** Returns the first result. When all sources fail, throws the error of the first one. */
export async function firstSuccess<Source, T>(sources: readonly Source[], attempt: (source: Source) => Promise<T>): Promise<T> {
  let first: unknown = null
  for (const source of sources) {
    try {
      return await attempt(source)
    } catch (error) {
      first ??= error
      if (error instanceof FleetError && (error.failure.code === 'cancelled' || error.failure.code === 'incompatible')) throw error
    }
  }
  throw first
}
