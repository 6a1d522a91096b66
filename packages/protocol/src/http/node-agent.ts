// /api/node: requests of workers, signed with the node's key.
import { z } from 'zod'
import { Digest, Incarnation, ModelName, NodeId, NodeName, NodeStatus, NodeType, plainText, PublicKey } from '../ids.ts'
import { Heartbeat, Resources } from '../messages/node.ts'
import { route } from './define.ts'
import { GalleryAddress } from './galleries.ts'
import { Labels } from './selector.ts'

/** The headers with a worker's signature, and the maximum clock skew. */
export const signatureHeaders = { key: 'x-muster-key', timestamp: 'x-muster-timestamp', signature: 'x-muster-signature' } as const
export const maxClockSkewMs = 5 * 60_000

/** The signed text: METHOD, PATH, TIMESTAMP, and the hex sha256 of the raw body, one per line. */
export const signedText = (request: { method: string; path: string; timestamp: string; bodySha256: string }): string =>
  `${request.method}\n${request.path}\n${request.timestamp}\n${request.bodySha256}`

export const features = ['async', 'progress', 'upgrade'] as const

/** Models whose files a worker wants from its start, without a load. */
export const PrefetchModels = z.array(ModelName).max(256, 'at most 256 models are prefetched for a worker')

export const Registration = z.object({
  name: NodeName,
  public_key: PublicKey,
  node_type: z.preprocess((value) => (value === '' || value === null ? undefined : value), NodeType.default('backend')),
  token: z.string().max(512).optional(),
  version: plainText(64).default(''),
  features: z.array(plainText(64)).max(64).default([]),
  os: plainText(32).default(''),
  arch: plainText(32).default(''),
  capability: plainText(64).default('default'),
  gateway_url: z
    .union([
      z.literal(''),
      z
        .url({ protocol: /^https?$/ })
        .max(512)
        .and(plainText(512)),
    ])
    .default(''),
  labels: Labels.default({}),
  prefetch_models: PrefetchModels.default([]),
  resources: Resources.default(() => Resources.parse({})),
  incarnation: Incarnation,
})
export type Registration = z.infer<typeof Registration>

export const RegistrationReply = z.object({ id: NodeId, name: z.string(), status: NodeStatus })
export type RegistrationReply = z.infer<typeof RegistrationReply>

/** The cluster-wide settings of workers. */
export const WorkerSettings = z.object({
  heartbeat_interval_ms: z.number().int().min(10),
  /** URLs of controllers, so that a worker survives the loss of the one it joined through. */
  controllers: z.array(z.string()).max(64),
  allow_source: z.array(z.string()).max(1024).default([]),
  /** `warn`: downloads begin also where the disk looks too small. */
  disk_check: z.enum(['refuse', 'warn']).optional().catch(undefined),
  /** In lookup order. `builtin://…@sha256:…` is a blob that any controller serves. */
  galleries: z.array(GalleryAddress).max(1024).default([]),
})
export type WorkerSettings = z.infer<typeof WorkerSettings>

export const Session = z.object({
  status: NodeStatus,
  /** Null until approved. `local:` is the bus inside the controller's own process. */
  bus: z
    .object({
      url: z.string(),
      credentials: z.string().nullable(),
      expires_at: z.string().nullable(),
      /** Certificates (PEM) that the servers are verified with; left out: those that the worker trusts. */
      ca: z.string().max(1_048_576).optional(),
    })
    .nullable(),
  gateway_secret: z.string().optional(),
  settings: WorkerSettings,
  /** Send it back as `known`: the next poll is answered when something differs. */
  etag: z.string(),
})
export type Session = z.infer<typeof Session>

const params = z.object({ id: NodeId })

export const nodeAgentRoutes = {
  register: route({
    method: 'POST',
    path: '/api/node/register',
    access: 'node',
    summary: 'Register a node, new or known',
    body: Registration,
    response: RegistrationReply,
    otherStatus: 201,
  }),
  session: route({
    method: 'POST',
    path: '/api/node/:id/session',
    access: 'node',
    summary: 'Long poll (at most 30 s) for approval, the bus and the settings',
    params,
    body: z.object({ incarnation: Incarnation.optional(), known: z.string().max(128).optional() }),
    response: Session,
  }),
  heartbeat: route({
    method: 'POST',
    path: '/api/node/:id/heartbeat',
    access: 'node',
    summary: 'Heartbeat of a worker without the bus',
    params,
    body: Heartbeat.extend({ seq: Heartbeat.shape.seq.optional(), node_id: NodeId.optional() }).partial({
      version: true,
      resources: true,
    }),
    response: z.object({ status: NodeStatus }),
  }),
  blob: route({
    method: 'GET',
    path: '/api/node/:id/blobs/:digest',
    access: 'node',
    summary: 'Download a built-in blob by digest, for approved nodes; supports Range',
    params: z.object({ id: NodeId, digest: Digest }),
    produces: 'application/octet-stream',
  }),
}
