// Verified content by digest: listed for the inventory, opened for other workers, received from uploads.
import { open, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { type Clock, ifMissing, makeDirectory, newId } from '@muster/host'
import { FleetError, type Digest, type ModelName, type StoredFile } from '@muster/protocol'
import { downloadBlob, type FetchDeps, fileSize } from '../storage/blobs.ts'
import { withStorageFailures } from '../storage/disk-space.ts'
import { digestHex, digestsIn } from '../storage/records.ts'
import type { Holds } from '../storage/locks.ts'
import { syncPath } from '../storage/unpack/sync.ts'
import type { ModelLayout } from './layout.ts'

/** Keeps the list within a bus message: about 400 kB. */
const mostListed = 4096

export async function listContents({ blobs }: ModelLayout): Promise<readonly StoredFile[]> {
  const sized = (await digestsIn(blobs)).map(async (digest): Promise<StoredFile[]> => {
    const found = await stat(join(blobs, digestHex(digest))).catch(() => null)
    // Collected since it was listed.
    return found === null ? [] : [{ digest, size: found.size }]
  })
  const found = (await Promise.all(sized)).flat()
  // Too many for one message: the largest are the most useful to other workers.
  const listed = found.length <= mostListed ? found : found.toSorted((a, b) => b.size - a.size).slice(0, mostListed)
  return listed.toSorted((a, b) => (a.digest < b.digest ? -1 : 1))
}

/** An open stream stays readable when the content is removed meanwhile. */
export async function openContent(
  path: string,
  range: { start: number; end: number } | null,
): Promise<{ size: number; stream: Readable } | null> {
  const file = await open(path, 'r').catch(ifMissing(null))
  return file === null ? null : { size: (await file.stat()).size, stream: file.createReadStream(range ?? {}) }
}

type UploadOptions = Readonly<{ model?: ModelName; digest?: Digest; size?: number; signal: AbortSignal }>

/** Stores an upload like any other content. The mark of its model keeps it, because the model has no other source for it. */
export async function receiveContent(
  { layout, fetching, holds, clock }: { layout: ModelLayout; fetching: FetchDeps; holds: Holds; clock: Clock },
  bytes: Readable,
  { model, digest, size, signal }: UploadOptions,
): Promise<StoredFile> {
  const incoming = layout.incomingOf(`upload ${newId()}`)
  using held = new DisposableStack()
  const hold = (content: Digest): void => void held.use(holds.hold([content]))
  if (digest !== undefined) hold(digest)
  const existing = digest === undefined ? null : await fileSize(layout.blob(digest))
  try {
    // Content that is already stored is read and dropped: the sender waits for the end of its request.
    if (existing !== null) bytes.resume()
    const wanted = { digest: null, size: size ?? null, incoming, name: 'the upload', open: async () => ({ stream: bytes, offset: 0 }) }
    const stored =
      digest !== undefined && existing !== null
        ? { digest, size: existing }
        : await withStorageFailures(downloadBlob({ ...fetching, onDigest: verifyDigest(digest, hold) }, wanted, { signal }))
    await recordUpload(layout, { model, digest: stored.digest, now: clock.now() })
    return stored
  } catch (error) {
    await rm(incoming, { force: true })
    throw error
  }
}

/** Called before the upload is placed under its digest. */
const verifyDigest =
  (wanted: Digest | undefined, hold: (digest: Digest) => void) =>
  (got: Digest): void => {
    if (wanted !== undefined && got !== wanted)
      throw new FleetError({
        code: 'integrity',
        retry: 'never',
        message: `the upload has the digest ${got}; expected ${wanted}; it was removed`,
      })
    hold(got)
  }

type Upload = Readonly<{ model: ModelName | undefined; digest: Digest; now: number }>

async function recordUpload(layout: ModelLayout, { model, digest, now }: Upload): Promise<void> {
  const directory = model === undefined ? layout.uploads : layout.uploadsFor(model)
  const path = join(directory, basename(layout.upload(digest)))
  await withStorageFailures(makeDirectory(directory, { mode: 0o700 }))
  await withStorageFailures(writeFile(path, '', { mode: 0o600 }))
  await utimes(path, now / 1000, now / 1000)
  await syncPath(path)
  await syncPath(directory)
}
