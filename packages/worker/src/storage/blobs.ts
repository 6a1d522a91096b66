// Verified blobs by digest. The backend store and the store of model files each have their own.
//
// The bytes of a download land in `incoming/`, a thread hashes them there, and a rename makes them a blob once the hash is
// the requested one. Bytes of an earlier try are continued, and count only by their hash.
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { ifMissing, type Step } from '@muster/host'
import { Digest, failureOf, FleetError } from '@muster/protocol'
import type { Claim } from './locks.ts'
import { storageFailureOf, withStorageFailures } from './disk-space.ts'
import type { RunningJob, Threads } from './threads.ts'
import { syncPath } from './unpack/sync.ts'

export interface Blobs {
  hasBlob(digest: Digest): Promise<boolean>
  incomingSize(digest: Digest): Promise<number>
  /** Does nothing when the blob exists. When several callers want one blob, the first fetches it and the others wait. */
  fetchBlob(download: BlobDownload, options: FetchOptions): Promise<void>
}

export type BlobsDeps = FetchDeps & Readonly<{ claim: Claim; layout: FetchDeps['layout'] & { incomingFile(digest: Digest): string } }>

export function createBlobs(deps: BlobsDeps): Blobs {
  const { layout, claim } = deps
  const judgeWrongContent = createWrongContentJudge()
  return {
    hasBlob: async (digest) => (await fileSize(layout.blob(digest))) !== null,
    incomingSize: async (digest) => (await fileSize(layout.incomingFile(digest))) ?? 0,
    fetchBlob: (download, options) =>
      claim([download.digest], options, async () => {
        const { digest } = download
        const existing = await fileSize(layout.blob(digest))
        if (existing !== null) return options.onBytes?.(existing)
        const wanted = { ...download, incoming: layout.incomingFile(digest), name: digest }
        await withStorageFailures(downloadBlob(deps, wanted, options)).catch((error: unknown) => {
          throw error instanceof WrongContentError ? judgeWrongContent(error) : error
        })
      }),
  }
}

/** The content that was received has another hash than the requested one. */
class WrongContentError extends FleetError {
  readonly expected: Digest
  readonly got: Digest

  constructor(what: string, { expected, got }: { readonly expected: Digest; readonly got: Digest }) {
    const message = `the content received for ${what} has another hash (${got} instead of ${expected}); it was removed`
    super({ code: 'integrity', retry: 'backoff', message })
    this.name = 'WrongContentError'
    this.expected = expected
    this.got = got
  }
}

/** Older entries are forgotten; then one more attempt is made. */
const maxWrongContents = 256

/**
 * A transfer may damage content, so the first wrong content is worth another attempt. A source that sends the same wrong content
 * twice has other content now: no further attempt helps.
 */
function createWrongContentJudge(): (error: WrongContentError) => FleetError {
  const received = new Map<Digest, Digest>()
  return (error) => {
    const { expected, got, failure } = error
    if (received.get(expected) === got)
      return new FleetError({ ...failure, retry: 'never', message: `${failure.message}; the source has changed` }, { cause: error })
    received.delete(expected)
    received.set(expected, got)
    for (const oldest of received.keys()) if (received.size > maxWrongContents) received.delete(oldest)
    return error
  }
}

export interface BlobSource {
  readonly stream: Readable
  /** The position of the first byte: 0 from a server without range support. */
  readonly offset: number
  /** The total size that the sender announced. */
  readonly size?: number | null
  /** Names the content and its source in errors. */
  readonly what?: string
}

interface Download {
  /** Null when the size is not known in advance. */
  readonly size: number | null
  /** Called once; not at all when every byte was received before; again from 0 when bytes of an earlier try are wrong. */
  readonly open: (offset: number) => Promise<BlobSource>
}

interface BlobDownload extends Download {
  readonly digest: Digest
}

interface ContentDownload extends Download {
  /** Null accepts any content. Then `open` starts at 0 unless it knows that the source still has the same content. */
  readonly digest: Digest | null
  /** The file that holds the bytes until they are verified. */
  readonly incoming: string
  /** Names content without a digest in errors. */
  readonly name: string
}

export interface FetchOptions {
  readonly signal: AbortSignal
  /** Bytes of this blob received so far, including earlier tries. */
  readonly onBytes?: (bytes: number) => void
  /** A sign of life while the blob is hashed or another caller fetches it. */
  readonly onSign?: () => void
}

export interface FetchDeps {
  /** The directory of verified blobs and the path of each. */
  readonly layout: { readonly blobs: string; blob(digest: Digest): string }
  readonly threads: Threads
  readonly step: Step
  readonly largestBytes: number
  readonly requireSpace: (bytes: number) => Promise<void>
  /** Receives the digest of content that was requested without one, before the content is placed under it. */
  readonly onDigest?: (digest: Digest) => void
}

export type FetchedBlob = Readonly<{ digest: Digest; size: number }>

/** Other programs fill the disk too: free space is checked again after so many bytes. */
const spaceCheckBytes = 64 * 1024 ** 2

/** The caller holds the lock of the digest (or of the incoming file, without a digest) and has checked that the blob is missing. */
export async function downloadBlob(deps: FetchDeps, download: ContentDownload, options: FetchOptions): Promise<FetchedBlob> {
  const isContinued = ((await fileSize(download.incoming)) ?? 0) > 0
  const fetched = await fetchOnce(deps, download, options).catch(async (error: unknown) => {
    // A power cut leaves files whose last bytes never reached the disk. The source is not at fault, so it is tried again.
    if (!isContinued || failureOf(error).code !== 'integrity') throw error
    return await fetchOnce(deps, download, options)
  })
  await deps.step('W.pull.layer_verified')
  return fetched
}

async function fetchOnce(deps: FetchDeps, download: ContentDownload, options: FetchOptions): Promise<FetchedBlob> {
  const { layout, threads } = deps
  const path = download.incoming
  const largest = download.size ?? deps.largestBytes
  await using file = await open(path, 'a+', 0o600)
  let have = (await file.stat()).size
  let what = nameOf(download)
  if (have > largest) await file.truncate((have = 0))
  const failed = new AbortController()
  const hashing = threads.hash(path, { ...options, signal: AbortSignal.any([options.signal, failed.signal]) })
  // When the download fails, its error is reported instead of this one.
  hashing.result.catch(() => {})
  try {
    options.onBytes?.(have)
    if (!(await isComplete({ deps, download, have, options }))) {
      await deps.requireSpace(download.size === null ? 0 : download.size - have)
      const source = await download.open(have)
      what = source.what ?? what
      have = await receive(deps, { file, have, hashing, largest }, { download, source, what, ...options })
    }
    hashing.grow(have)
    hashing.finish()
    await file.datasync()
    const digest = Digest.parse(`sha256:${await hashing.result}`)
    if (download.digest === null) deps.onDigest?.(digest)
    else if (digest !== download.digest) throw new WrongContentError(what, { expected: download.digest, got: digest })
    await placeBlob(layout, { path, digest, size: have })
    return { digest, size: have }
  } catch (thrown) {
    failed.abort()
    await hashing.result.catch(() => {})
    const error = storageFailureOf(thrown)
    // Wrong bytes are useless, and on a full disk other installs cannot continue until these are removed.
    if (error instanceof FleetError && ['integrity', 'disk_full'].includes(error.failure.code)) await rm(path, { force: true })
    throw error
  }
}

/** Content requested without a digest may already exist as a blob, which is then kept. */
async function placeBlob(layout: FetchDeps['layout'], { path, digest, size }: FetchedBlob & { readonly path: string }): Promise<void> {
  if ((await fileSize(layout.blob(digest))) === size) return await rm(path, { force: true })
  await rename(path, layout.blob(digest))
  await syncPath(layout.blobs)
}

interface CompletionQuery {
  readonly deps: FetchDeps
  readonly download: ContentDownload
  readonly have: number
  readonly options: FetchOptions
}

/** With a digest but no size, the hash decides whether all bytes are there; with neither, only the source can. */
async function isComplete({ deps, download, have, options }: CompletionQuery): Promise<boolean> {
  if (download.digest === null) return false
  if (download.size !== null) return have === download.size
  if (have === 0) return false
  return (await deps.threads.digestOf(download.incoming, have, options)) === download.digest
}

interface ReceiveTarget {
  readonly file: FileHandle
  readonly have: number
  readonly hashing: RunningJob<string>
  readonly largest: number
}

type ReceiveOptions = FetchOptions & Readonly<{ download: ContentDownload; source: BlobSource; what: string }>

/** Returns the final size. */
async function receive(
  { step, requireSpace }: FetchDeps,
  { file, have, hashing, largest }: ReceiveTarget,
  { download, source: { stream, offset, size: announced = null }, what, signal, onBytes }: ReceiveOptions,
): Promise<number> {
  try {
    if (offset > have) throw broken(`${what} was requested from byte ${have} and was sent from byte ${offset}`)
    const size = download.size ?? announced
    if (size !== null && size > largest) throw oversized(what, largest)
    if (size !== null) await requireSpace(size - offset)
    if (offset < have) await file.truncate(offset)
    let at = offset
    hashing.grow(at)
    let isMidReported = false
    let nextCheckAt = at + spaceCheckBytes
    addAbortSignal(signal, stream)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (at + chunk.length > largest) throw oversized(what, largest)
      await file.appendFile(chunk)
      at += chunk.length
      hashing.grow(at)
      onBytes?.(at)
      if (at > nextCheckAt) {
        nextCheckAt = at + spaceCheckBytes
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

/** Null when the file does not exist. */
export async function fileSize(path: string): Promise<number | null> {
  return (await stat(path).catch(ifMissing(null)))?.size ?? null
}

function broken(message: string): FleetError {
  return new FleetError({ code: 'unavailable', retry: 'backoff', message })
}

function oversized(what: string, largest: number): FleetError {
  return new FleetError({
    code: 'integrity',
    retry: 'backoff',
    message: `more than ${largest} bytes were received for ${what}; they were removed`,
  })
}
