// A file that somebody sends us: written, hashed and kept like any other. What it is for holds it: a model that is only
// configured has nowhere else to get it from.
import { rm, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Readable } from 'node:stream'
import { makeDirectory, newId, type Clock } from '@muster/host'
import { FleetError, type Digest, type ModelName, type StoredFile } from '@muster/protocol'
import { withStorageFailures } from '../storage/disk-full.ts'
import { downloadBlob, fileSize, type FetchDeps } from '../storage/fetch-blob.ts'
import type { Holds } from '../storage/holds.ts'
import { syncPath } from '../storage/unpack/sync-tree.ts'
import type { ModelLayout } from './model-layout.ts'

export interface ReceiveDeps {
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
