// Reading what is kept: verified content by its digest.
import { open, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Clock, errorCode, makeDirectory, newId } from '@muster/host'
import { Digest, FleetError, type ModelName, type StoredFile } from '@muster/protocol'
import { downloadBlob, type FetchDeps, fileSize } from '../storage/blobs.ts'
import { withStorageFailures } from '../storage/disk-space.ts'
import type { Holds } from '../storage/locks.ts'
import { syncPath } from '../storage/unpack/sync.ts'
import type { ModelLayout } from './layout.ts'

/** As many as fit into a message of the bus, with room for the rest of it: some 400 kB. */
const mostListed = 4096

export async function listContents({ blobs }: ModelLayout): Promise<readonly StoredFile[]> {
  const digests = (await readdir(blobs)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  const sized = digests.map(async (digest): Promise<StoredFile[]> => {
    const found = await stat(join(blobs, digest.slice('sha256:'.length))).catch(() => null)
    // Collected since it was listed.
    return found === null ? [] : [{ digest, size: found.size }]
  })
  const found = (await Promise.all(sized)).flat()
  // Where not all can be told, the largest are: they are worth the most to others.
  const told = found.length <= mostListed ? found : found.toSorted((a, b) => b.size - a.size).slice(0, mostListed)
  return told.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))
}

/** What is open stays readable, also when it is removed meanwhile. */
export async function openContent(
  path: string,
  range: { start: number; end: number } | null,
): Promise<{ size: number; stream: Readable } | null> {
  try {
    const file = await open(path, 'r')
    const { size } = await file.stat()
    return { size, stream: file.createReadStream(range ?? {}) }
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
}

// A file that somebody sends us: written, hashed and kept like any other. What it is for holds it: a model that is only
// configured has nowhere else to get it from.

interface ReceiveDeps {
  readonly layout: ModelLayout
  readonly fetching: FetchDeps
  readonly holds: Holds
  readonly clock: Clock
}

type UploadOptions = Readonly<{ model?: ModelName; digest?: Digest; size?: number; signal: AbortSignal }>

export async function receiveContent(
  { layout, fetching, holds, clock }: ReceiveDeps,
  bytes: Readable,
  { model, digest, size, signal }: UploadOptions,
): Promise<StoredFile> {
  const incoming = layout.incomingOf(`upload ${newId()}`)
  using held = new DisposableStack()
  const hold = (content: Digest): void => void held.use(holds.hold([content]))
  if (digest !== undefined) hold(digest)
  const there = digest === undefined ? null : await fileSize(layout.blob(digest))
  try {
    // What is there already is read to nowhere: whoever sends it waits for its end.
    if (there !== null) bytes.resume()
    const wanted = { digest: null, size: size ?? null, incoming, name: 'the upload', open: async () => ({ stream: bytes, offset: 0 }) }
    const stored =
      digest !== undefined && there !== null
        ? { digest, size: there }
        : await withStorageFailures(downloadBlob({ ...fetching, onDigest: verifyDigest(digest, hold) }, wanted, { signal }))
    await recordUpload(layout, { model, digest: stored.digest, now: clock.now() })
    return stored
  } catch (error) {
    await rm(incoming, { force: true })
    throw error
  }
}

/** Before it has the name of what it turned out to be. */
const verifyDigest =
  (wanted: Digest | undefined, hold: (digest: Digest) => void) =>
  (got: Digest): void => {
    if (wanted !== undefined && got !== wanted)
      throw new FleetError({ code: 'integrity', retry: 'never', message: `the upload should be ${wanted} and is ${got}; it was removed` })
    hold(got)
  }

type Upload = Readonly<{ model: ModelName | undefined; digest: Digest; now: number }>

async function recordUpload(layout: ModelLayout, { model, digest, now }: Upload): Promise<void> {
  const directory = model === undefined ? layout.uploads : layout.uploadsFor(model)
  const path = join(directory, basename(layout.upload(digest)))
  await withStorageFailures(makeDirectory(directory, { mode: 0o700 }))
  await withStorageFailures(writeFile(path, '', { mode: 0o600 }))
  await utimes(path, now / 1000, now / 1000)
  await syncPath(directory)
}
