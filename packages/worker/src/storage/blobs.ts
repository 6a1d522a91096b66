// Verified blobs by their digests: of backends in one store, of model files in another.
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { errorCode } from '@muster/host'
import { Digest, failureOf, FleetError } from '@muster/protocol'
import { type Claims, claimWithSigns } from './locks.ts'
import { storageFailureOf, withStorageFailures } from './disk-space.ts'
import type { RunningJob, Threads } from './threads.ts'
import { syncPath } from './unpack/sync.ts'

export interface Blobs {
  hasBlob(digest: Digest): Promise<boolean>
  incomingSize(digest: Digest): Promise<number>
  /** Does nothing when the blob is there. Of several callers for one blob one fetches and the others wait. */
  fetchBlob(wanted: BlobDownload, options: FetchOptions): Promise<void>
}

export type BlobsDeps = FetchDeps & Readonly<{ claims: Claims; layout: FetchDeps['layout'] & { incomingFile(digest: Digest): string } }>

export function createBlobs(deps: BlobsDeps): Blobs {
  const { layout, claims } = deps
  const claim = claimWithSigns(claims)
  return {
    hasBlob: async (digest) => (await fileSize(layout.blob(digest))) !== null,
    incomingSize: async (digest) => (await fileSize(layout.incomingFile(digest))) ?? 0,
    fetchBlob: (wanted, options) =>
      claim([wanted.digest], options, async () => {
        const there = await fileSize(layout.blob(wanted.digest))
        if (there !== null) return options.onBytes?.(there)
        const { digest } = wanted
        await withStorageFailures(downloadBlob(deps, { ...wanted, incoming: layout.incomingFile(digest), name: digest }, options))
      }),
  }
}

// Brings one blob into a store. Its bytes land in `incoming/`, are hashed from there in another thread, and become a
// blob by rename only when the hash is the one that was asked for. What a former try left is continued, not trusted.

export interface BlobSource {
  readonly stream: Readable
  /** Where it really begins: 0 from a server that knows no ranges. */
  readonly offset: number
  /** Of the whole, as far as the sender says. */
  readonly size?: number | null
}

interface Download {
  /** Null when nobody knows it before the end. */
  readonly size: number | null
  /** Called at most once, not at all when every byte is there already, and again from 0 when those of a former try are wrong. */
  readonly open: (offset: number) => Promise<BlobSource>
}

interface BlobDownload extends Download {
  readonly digest: Digest
}

interface ContentDownload extends Download {
  /** Null: whatever comes. Then `open` begins at 0 unless it knows that the rest belongs to what is there. */
  readonly digest: Digest | null
  /** Where its bytes are until they are verified. */
  readonly incoming: string
  /** For people, where it has no digest. */
  readonly name: string
}

export interface FetchOptions {
  readonly signal: AbortSignal
  /** How many bytes of this blob are there, those of former tries included. */
  readonly onBytes?: (bytes: number) => void
  /** It is being hashed, or somebody else fetches it. */
  readonly onSign?: () => void
}

export interface FetchDeps {
  /** The directory of verified blobs, and the place of each. */
  readonly layout: { readonly blobs: string; blob(digest: Digest): string }
  readonly threads: Threads
  readonly step: (name: string) => Promise<void> | void
  readonly largestBytes: number
  readonly requireSpace: (bytes: number) => Promise<void>
  /** Told what a blob is that was asked for without a digest, before it has that name. */
  readonly onDigest?: (digest: Digest) => void
}

export type FetchedBlob = Readonly<{ digest: Digest; size: number }>

/** Others fill the disk too: looked at again after so many bytes. */
const spaceCheckBytes = 64 * 1024 ** 2

/** The caller holds the lock of the digest (of the incoming file when there is none), and has seen that the blob is not there. */
export async function downloadBlob(deps: FetchDeps, wanted: ContentDownload, options: FetchOptions): Promise<FetchedBlob> {
  const isContinued = ((await fileSize(wanted.incoming)) ?? 0) > 0
  const fetched = await fetchOnce(deps, wanted, options).catch(async (error: unknown) => {
    // A power cut leaves files whose last bytes never reached the disk. That is no fault of the source, so it is asked again.
    if (!isContinued || failureOf(error).code !== 'integrity') throw error
    return await fetchOnce(deps, wanted, options)
  })
  await deps.step('W.pull.layer_verified')
  return fetched
}

async function fetchOnce(deps: FetchDeps, wanted: ContentDownload, options: FetchOptions): Promise<FetchedBlob> {
  const { layout, threads } = deps
  const path = wanted.incoming
  const largest = wanted.size ?? deps.largestBytes
  await using file = await open(path, 'a+', 0o600)
  let have = (await file.stat()).size
  if (have > largest) await file.truncate((have = 0))
  const failed = new AbortController()
  const onSign = options.onSign === undefined ? {} : { onSign: options.onSign }
  const followed = threads.hash(path, { signal: AbortSignal.any([options.signal, failed.signal]), ...onSign })
  // When the download fails, its error is the one to tell.
  followed.result.catch(() => {})
  try {
    options.onBytes?.(have)
    if (!(await isComplete({ deps, wanted, have, options }))) {
      await deps.requireSpace(wanted.size === null ? 0 : wanted.size - have)
      have = await receive(deps, { file, have, followed, largest }, { wanted, ...options })
    }
    followed.grow(have)
    followed.finish()
    await file.datasync()
    const digest = Digest.parse(`sha256:${await followed.result}`)
    if (wanted.digest === null) deps.onDigest?.(digest)
    else if (digest !== wanted.digest) throw mismatch(wanted.digest, digest)
    await placeBlob(layout, { path, digest, size: have })
    return { digest, size: have }
  } catch (thrown) {
    failed.abort()
    await followed.result.catch(() => {})
    const error = storageFailureOf(thrown)
    // Wrong bytes are useless, and on a full disk nobody else can go on until these are gone.
    if (error instanceof FleetError && ['integrity', 'disk_full'].includes(error.failure.code)) await rm(path, { force: true })
    throw error
  }
}

/** What was learned only now may be there already, by another name; it is kept once. */
async function placeBlob(layout: FetchDeps['layout'], { path, digest, size }: FetchedBlob & { readonly path: string }): Promise<void> {
  if ((await fileSize(layout.blob(digest))) === size) return await rm(path, { force: true })
  await rename(path, layout.blob(digest))
  await syncPath(layout.blobs)
}

interface CompletionQuery {
  readonly deps: FetchDeps
  readonly wanted: ContentDownload
  readonly have: number
  readonly options: FetchOptions
}

/** With an unknown size only the hash of what is there can tell whether it is all; with neither, only the source can. */
async function isComplete({ deps, wanted, have, options }: CompletionQuery): Promise<boolean> {
  if (wanted.digest === null) return false
  if (wanted.size !== null) return have === wanted.size
  if (have === 0) return false
  const whole = deps.threads.hash(wanted.incoming, options)
  whole.grow(have)
  whole.finish()
  return `sha256:${await whole.result}` === wanted.digest
}

interface ReceiveTarget {
  readonly file: FileHandle
  readonly have: number
  readonly followed: RunningJob<string>
  readonly largest: number
}

type ReceiveOptions = FetchOptions & { readonly wanted: ContentDownload }

/** How many bytes are there in the end. */
async function receive(
  { step, requireSpace }: FetchDeps,
  { file, have, followed, largest }: ReceiveTarget,
  { wanted, signal, onBytes }: ReceiveOptions,
): Promise<number> {
  const { stream, offset, size: said = null } = await wanted.open(have)
  const what = nameOf(wanted)
  try {
    if (offset > have) throw broken(`${what} was asked for from byte ${have}, and came from byte ${offset}`)
    const size = wanted.size ?? said
    if (size !== null && size > largest) throw oversized(what, largest)
    if (size !== null) await requireSpace(size - offset)
    if (offset < have) await file.truncate(offset)
    let at = offset
    followed.grow(at)
    let isMidReported = false
    let lookAgainAt = at + spaceCheckBytes
    addAbortSignal(signal, stream)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (at + chunk.length > largest) throw oversized(what, largest)
      await file.appendFile(chunk)
      at += chunk.length
      followed.grow(at)
      onBytes?.(at)
      if (at > lookAgainAt) {
        lookAgainAt = at + spaceCheckBytes
        await requireSpace(0)
      }
      if (isMidReported || at * 2 < (size ?? largest)) continue
      isMidReported = true
      await step('W.pull.mid_layer')
    }
    if (size !== null && at < size) throw broken(`${what} ended after ${at} of ${size} bytes`)
    return at
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    stream.destroy()
  }
}

const nameOf = ({ digest, name }: ContentDownload): string => digest ?? name

/** Null when there is none. */
export async function fileSize(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
}

function broken(message: string): FleetError {
  return new FleetError({ code: 'unavailable', retry: 'backoff', message })
}

function mismatch(wanted: Digest, got: Digest): FleetError {
  return new FleetError({
    code: 'integrity',
    retry: 'backoff',
    message: `what was sent as ${wanted} has another hash (${got}); it was removed`,
  })
}

function oversized(what: string, largest: number): FleetError {
  return new FleetError({
    code: 'integrity',
    retry: 'backoff',
    message: `more than ${largest} bytes were sent as ${what}; they were removed`,
  })
}
