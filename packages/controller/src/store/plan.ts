// The plan of an intent: everything that an attempt needs, fixed at submission. A later edit of a gallery, or a moved tag, does
// not change it.
import { BackendName, Digest } from '@muster/protocol'
import { z } from 'zod'

export const Plan = z.object({
  uri: z.string().max(2048).nullable(),
  /** Other URIs of the same content, tried when `uri` does not answer. */
  mirrors: z.array(z.string().max(2048)).max(64),
  /** The content behind `uri` for the node's platform; null when only the worker can read it (`file:`). */
  digest: Digest.nullable(),
  version: z.string().max(256),
  galleryUrl: z.string().max(2048),
  /** The concrete backend of a meta backend. */
  name: BackendName.nullable(),
  alias: BackendName.nullable(),
  /** A version or digest was requested: an intact backend of another version is replaced. */
  exact: z.boolean(),
  strategy: z.enum(['rolling', 'recreate']).nullable(),
  /** Upper limit of the download; null: unknown. */
  sizeBytes: z.number().int().min(0).nullable(),
  /**
   * Set for the rollback of an upgrade. `error`: shown when the rollback is applied; `plan`: the plan of the upgrade, for a
   * retry.
   */
  rollback: z.object({ error: z.string(), plan: z.unknown() }).optional(),
})
export type Plan = z.infer<typeof Plan>

/** A deletion needs only the name. */
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
