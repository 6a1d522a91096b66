// Verified blobs by their digests: of backends in one store, of model files in another.
import { claimWithSigns, type Claims } from './claims.ts'
import { withStorageFailures } from './disk-full.ts'
import { downloadBlob, fileSize, type FetchDeps, type FetchOptions, type BlobDownload } from './fetch-blob.ts'
import type { Digest } from '@muster/protocol'

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
