// What is known about an installed version of a backend: `backends/<name>/current`, one small file that is replaced whole.
import { BackendName, Digest } from '@muster/protocol'
import { z } from 'zod'

export const InstalledRecord = z.object({
  /** The name that was asked for: of a meta backend, the meta name. */
  name: BackendName,
  is_meta: z.boolean(),
  /** The backend that a meta backend was resolved to. */
  concrete: BackendName.nullable(),
  alias: BackendName.nullable(),
  version: z.string().max(256),
  /** Of the manifest, the archive or the packed directory; also the name of the tree. */
  digest: Digest,
  /** Of the list of manifests, one per platform, that led to it: what the same version is called on every machine. */
  index_digest: Digest.nullable().default(null),
  /** Whoever asked for it last named the manifest all the same, and finds it under that digest. */
  is_manifest_pinned: z.boolean().default(false),
  uri: z.string().max(2048),
  gallery_url: z.string().max(2048),
  installed_at: z.string().max(64),
})
export type InstalledRecord = z.infer<typeof InstalledRecord>

/** The digest under which a version is listed: the one by which it was asked for last; else that of the index, which is the same on every machine. */
export const listedDigest = ({ digest, index_digest: index, is_manifest_pinned: isManifestPinned }: InstalledRecord): Digest =>
  isManifestPinned ? digest : (index ?? digest)

/** Either of its digests names it. */
export const matchesDigest = (record: InstalledRecord, digest: Digest): boolean => record.digest === digest || record.index_digest === digest

export const Activation = z.object({ format: z.literal(1), current: InstalledRecord, previous: InstalledRecord.nullable() })
export type Activation = z.infer<typeof Activation>
