// The plan of an intent: everything that a try needs, fixed at submission. A later edit of a gallery, or a moved tag, does not
// change it.
import { BackendName, Digest } from '@muster/protocol'
import { z } from 'zod'

export const Plan = z.object({
  uri: z.string().max(2048).nullable(),
  /** Other places of the same content, tried when `uri` does not answer. */
  mirrors: z.array(z.string().max(2048)).max(64),
  /** The content behind the uri for this node's platform; null where only the worker can know (`file:`). */
  digest: Digest.nullable(),
  version: z.string().max(256),
  galleryUrl: z.string().max(2048),
  /** The concrete backend behind a meta one. */
  name: BackendName.nullable(),
  alias: BackendName.nullable(),
  /** A version or digest was asked for: another intact version is replaced. */
  exact: z.boolean(),
  strategy: z.enum(['rolling', 'recreate']).nullable(),
  /** Bytes to be fetched at most; null when nobody said. */
  sizeBytes: z.number().int().min(0).nullable(),
  /** It takes an upgrade back. `error`: what is said when it has come true; `plan`: what it takes back, for a retry. */
  rollback: z.object({ error: z.string(), plan: z.unknown() }).optional(),
})
export type Plan = z.infer<typeof Plan>

/** A deletion needs nothing but the name. */
export const nothingToFetch: Plan = {
  uri: null,
  mirrors: [],
  digest: null,
  version: '',
  galleryUrl: '',
  name: null,
  alias: null,
  exact: false,
  strategy: null,
  sizeBytes: null,
}
