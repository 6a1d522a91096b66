// Brings one blob into the store. Its bytes land in `incoming/`, are hashed from there in another thread, and become a
// blob by rename only when the hash is the one that was asked for. What a former try left is continued, not trusted.
import { open, rename, rm, stat, type FileHandle } from 'node:fs/promises'
import { addAbortSignal, type Readable } from 'node:stream'
import { errorCode } from '@muster/host'
import { failureOf, FleetError, type Digest } from '@muster/protocol'
import { storageFailure } from './disk-full.ts'
import type { Layout } from './layout.ts'
import type { RunningJob, Threads } from './threads.ts'
import { syncPath } from './unpack/sync-tree.ts'

export interface BlobSource {
  readonly stream: Readable
  /** Where it really begins: 0 from a server that knows no ranges. */
  readonly offset: number
}

export interface WantedBlob {
  readonly digest: Digest
  /** Null when nobody knows it before the end. */
  readonly size: number | null
  /** Called at most once, not at all when every byte is there already, and again from 0 when those of a former try are wrong. */
  readonly open: (offset: number) => Promise<BlobSource>
}

export interface FetchOptions {
  readonly signal: AbortSignal
  /** How many bytes of this blob are there, those of former tries included. */
  readonly onBytes?: (bytes: number) => void
  /** It is being hashed, or somebody else fetches it. */
  readonly onSign?: () => void
}

export interface FetchDeps {
  readonly layout: Layout
  readonly threads: Threads
  readonly step: (name: string) => Promise<void> | void
  readonly largestBytes: number
  readonly needSpace: (bytes: number) => Promise<void>
}

/** The caller holds the lock of the digest, and has seen that the blob is not there. */
export async function fetchBlob(deps: FetchDeps, wanted: WantedBlob, options: FetchOptions): Promise<void> {
  const isContinued = ((await sizeOf(deps.layout.incomingFile(wanted.digest))) ?? 0) > 0
  await fetchOnce(deps, wanted, options).catch(async (error: unknown) => {
    // A power cut leaves files whose last bytes never reached the disk. That is no fault of the source, so it is asked again.
    if (!isContinued || failureOf(error).code !== 'integrity') throw error
    await fetchOnce(deps, wanted, options)
  })
  await deps.step('W.pull.layer_verified')
}

async function fetchOnce(deps: FetchDeps, wanted: WantedBlob, options: FetchOptions): Promise<void> {
  const { layout, threads, step } = deps
  const path = layout.incomingFile(wanted.digest)
  const largest = wanted.size ?? deps.largestBytes
  await using file = await open(path, 'a+', 0o600)
  let have = (await file.stat()).size
  if (have > largest) await file.truncate((have = 0))
  const failed = new AbortController()
  const onSign = options.onSign === undefined ? {} : { onSign: options.onSign }
  const followed = threads.follow(path, { signal: AbortSignal.any([options.signal, failed.signal]), ...onSign })
  // When the download fails, its error is the one to tell.
  followed.result.catch(() => {})
  try {
    options.onBytes?.(have)
    if (!(await isComplete({ deps, wanted, have, options }))) {
      await deps.needSpace(wanted.size === null ? 0 : wanted.size - have)
      have = await receive({ file, have, followed, largest }, { wanted, step, ...options })
    }
    followed.grow(have)
    followed.finish()
    await file.datasync()
    if (`sha256:${await followed.result}` !== wanted.digest) throw mismatch(wanted.digest)
    await rename(path, layout.blob(wanted.digest))
    await syncPath(layout.blobs)
  } catch (thrown) {
    failed.abort()
    await followed.result.catch(() => {})
    const error = storageFailure(thrown)
    // Wrong bytes are useless, and on a full disk nobody else can go on until these are gone.
    if (error instanceof FleetError && ['integrity', 'disk_full'].includes(error.failure.code)) await rm(path, { force: true })
    throw error
  }
}

interface Completion {
  readonly deps: FetchDeps
  readonly wanted: WantedBlob
  readonly have: number
  readonly options: FetchOptions
}

/** With an unknown size only the hash of what is there can tell whether it is all. */
async function isComplete({ deps, wanted, have, options }: Completion): Promise<boolean> {
  if (wanted.size !== null) return have === wanted.size
  if (have === 0) return false
  const whole = deps.threads.follow(deps.layout.incomingFile(wanted.digest), options)
  whole.grow(have)
  whole.finish()
  return `sha256:${await whole.result}` === wanted.digest
}

interface Reception {
  readonly file: FileHandle
  readonly have: number
  readonly followed: RunningJob<string>
  readonly largest: number
}

type Receiving = FetchOptions & { readonly wanted: WantedBlob; readonly step: FetchDeps['step'] }

/** How many bytes are there in the end. */
async function receive({ file, have, followed, largest }: Reception, { wanted, step, signal, onBytes }: Receiving): Promise<number> {
  const { stream, offset } = await wanted.open(have)
  try {
    if (offset > have) throw broken(`${wanted.digest} was asked for from byte ${have}, and came from byte ${offset}`)
    if (offset < have) await file.truncate(offset)
    let at = offset
    followed.grow(at)
    let isMidReported = false
    addAbortSignal(signal, stream)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (at + chunk.length > largest) throw oversized(wanted.digest, largest)
      await file.appendFile(chunk)
      at += chunk.length
      followed.grow(at)
      onBytes?.(at)
      if (isMidReported || at * 2 < largest) continue
      isMidReported = true
      await step('W.pull.mid_layer')
    }
    if (wanted.size !== null && at < wanted.size) throw broken(`${wanted.digest} ended after ${at} of ${wanted.size} bytes`)
    return at
  } catch (error) {
    signal.throwIfAborted()
    throw error
  } finally {
    stream.destroy()
  }
}

/** Null when there is none. */
export async function sizeOf(path: string): Promise<number | null> {
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

function mismatch(digest: Digest): FleetError {
  return new FleetError({ code: 'integrity', retry: 'backoff', message: `what was sent as ${digest} has another hash; it was removed` })
}

function oversized(digest: Digest, largest: number): FleetError {
  return new FleetError({
    code: 'integrity',
    retry: 'backoff',
    message: `more than ${largest} bytes were sent as ${digest}; they were removed`,
  })
}
