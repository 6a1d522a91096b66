// /api/backends: installed and offered backends, and operations that change them.
import { z } from 'zod'
import { BackendName, Digest, NodeId, NodeStatus, OperationId } from '../ids.ts'
import { route } from './define.ts'
import { LeftOut } from './galleries.ts'
import { Selector } from './selector.ts'
import { OperationView } from './operations.ts'

export const BackendOnNode = z.object({
  node_id: NodeId,
  node_name: z.string(),
  node_status: NodeStatus,
  version: z.string(),
  digest: z.string(),
  uri: z.string(),
  installed_at: z.string(),
  /** Files are missing or changed there; an install or an upgrade repairs it. */
  damaged: z.literal(true).optional(),
})
export type BackendOnNode = z.infer<typeof BackendOnNode>

export const BackendView = z.object({
  name: z.string(),
  is_system: z.boolean(),
  is_meta: z.boolean(),
  /** Taken from the first node by name. */
  metadata: z.object({
    name: z.string(),
    installed_at: z.string(),
    gallery_url: z.string(),
    version: z.string(),
    uri: z.string(),
    digest: z.string(),
  }),
  nodes: z.array(BackendOnNode),
  upgrade_available: z.boolean(),
  /** Nodes of one platform have different builds. */
  drift: z.boolean(),
})
export type BackendView = z.infer<typeof BackendView>

const NodeBuild = z.object({ node_id: NodeId, node_name: z.string(), version: z.string(), digest: z.string() })
export const UpgradeView = z.object({
  installed_version: z.string(),
  available_version: z.string(),
  installed_digest: z.string(),
  available_digest: z.string(),
  node_drift: z.array(NodeBuild),
})
export type UpgradeView = z.infer<typeof UpgradeView>
const upgrades = z.object({
  upgrades: z.record(z.string(), UpgradeView),
  /** When galleries and registries were last checked; null: not yet. */
  checked_at: z.string().nullable(),
  /** Sources that could not be read, with the reason. */
  problems: z.array(z.object({ backend: z.string().nullable(), message: z.string() })),
})

export const OfferedBackend = z.object({
  name: z.string(),
  gallery: z.string(),
  is_meta: z.boolean(),
  /** `development`: builds of unreleased code. */
  channel: z.enum(['release', 'development']).default('release'),
  version: z.string(),
  description: z.string(),
  license: z.string(),
  icon: z.string(),
  tags: z.array(z.string()),
  urls: z.array(z.string()),
  installed: z.boolean(),
  nodes: z.array(z.object({ node_id: NodeId, node_name: z.string(), fits: z.boolean(), reason: z.string().nullable() })),
})
export type OfferedBackend = z.infer<typeof OfferedBackend>

/** At most one of the two; neither: all eligible nodes. */
const targets = {
  nodes: z.array(NodeId).min(1, 'nodes is a list of node ids, or left out for all').max(10_000).optional(),
  selector: Selector.optional(),
  dry_run: z.boolean().optional(),
}
const oneOfTargets = (body: { nodes?: unknown; selector?: unknown }): boolean => body.nodes === undefined || body.selector === undefined
const onlyOne = { message: 'name nodes or a selector, not both' }

export const Rollout = z.strictObject({
  canary: z.number().int().min(1).max(10_000).default(1),
  max_parallel: z.number().int().min(1).max(10_000).default(1),
  min_healthy_time: z
    .string()
    .regex(/^\d{1,6}(?:\.\d+)?(?:ms|s|m|h)$/, 'a duration is a number and ms, s, m or h')
    .default('10s'),
})
export type Rollout = z.infer<typeof Rollout>
export const Strategy = z.enum(['rolling', 'recreate'])
export type Strategy = z.infer<typeof Strategy>

const uri = z
  .string()
  .min(1)
  .max(2048)
  .regex(/^[\x21-\x7e]+$/, 'a uri has no spaces')

const reference = /^(?:([A-Za-z0-9][A-Za-z0-9._-]{0,62})@)?([A-Za-z0-9][A-Za-z0-9._+-]{0,127})$/
/** `name`: the entry of the first gallery that offers it; `gallery@name`: that of one gallery. */
const BackendReference = z
  .string()
  .regex(reference, 'a backend name is 1–128 characters of A–Z, a–z, 0–9 and . _ + -; GALLERY@NAME selects one gallery')

/** Throws ZodError for a text that is no reference. */
export function parseBackendReference(text: string): Readonly<{ gallery: string | null; backend: BackendName }> {
  const [, gallery = null, backend] = reference.exec(text) ?? []
  return { gallery, backend: BackendName.parse(backend) }
}

export const InstallRequest = z
  .strictObject({
    backend: BackendReference.optional(),
    uri: uri.optional(),
    name: BackendName.optional(),
    alias: BackendName.optional(),
    digest: Digest.optional(),
    version: z.string().min(1).max(256).optional(),
    ...targets,
  })
  .refine((body) => (body.backend === undefined) !== (body.uri === undefined), {
    message: 'set "backend" for an entry of a gallery, or "uri" and "name" for any other source',
  })
  .refine((body) => body.uri === undefined || body.name !== undefined, {
    path: ['name'],
    message: 'a URI needs the name to install it under',
  })
  .refine(oneOfTargets, onlyOne)
export type InstallRequest = z.infer<typeof InstallRequest>

const upgradeFields = { strategy: Strategy.default('rolling'), rollout: Rollout.optional(), ...targets }
export const UpgradeRequest = z.strictObject(upgradeFields).refine(oneOfTargets, onlyOne)
export type UpgradeRequest = z.infer<typeof UpgradeRequest>

/** Without `backends`: every backend that has an upgrade or drift. */
export const UpgradeAllRequest = z
  .strictObject({ backends: z.array(BackendName).min(1).max(1_000).optional(), ...upgradeFields })
  .refine(oneOfTargets, onlyOne)
export type UpgradeAllRequest = z.infer<typeof UpgradeAllRequest>

const isTrue = z
  .enum(['true', 'false'])
  .optional()
  .transform((value) => value === 'true')
/** As a query: `node=` separated by commas, or repeated. */
export const DeleteQuery = z.object({
  node: z
    .string()
    .max(65_536)
    .optional()
    .transform((value) => value?.split(','))
    .pipe(z.array(NodeId).max(10_000).optional()),
  force: isTrue,
  dry_run: isTrue,
})
export type DeleteQuery = z.infer<typeof DeleteQuery>

/** A dry run answers with the operation that would be stored. */
const accepted = z.union([z.object({ operation_id: OperationId }), OperationView])
const params = z.object({ name: BackendName })

export const backendRoutes = {
  list: route({
    method: 'GET',
    path: '/api/backends',
    access: 'read',
    summary: 'List installed backends over all nodes',
    response: z.object({ backends: z.array(BackendView) }),
  }),
  gallery: route({
    method: 'GET',
    path: '/api/backends/gallery',
    access: 'read',
    summary: 'List the backends of all galleries, with the nodes that each one fits',
    response: z.object({
      backends: z.array(OfferedBackend),
      problems: z.array(z.object({ gallery: z.string(), message: z.string() })),
      left_out: z.array(LeftOut).default([]),
    }),
  }),
  install: route({
    method: 'POST',
    path: '/api/backends/install',
    access: 'admin',
    summary: 'Install a backend on nodes',
    body: InstallRequest,
    response: accepted,
    status: 202,
    otherStatus: 200,
  }),
  upgrades: route({
    method: 'GET',
    path: '/api/backends/upgrades',
    access: 'read',
    summary: 'List backends that have a newer build, or differ between nodes',
    response: upgrades,
  }),
  upgradeAll: route({
    method: 'POST',
    path: '/api/backends/upgrades',
    access: 'admin',
    summary: 'Upgrade every backend that has an upgrade or drift, or only the named ones',
    body: UpgradeAllRequest,
    response: z.object({ operations: z.array(z.union([z.object({ backend: z.string(), operation_id: OperationId }), OperationView])) }),
    status: 202,
    otherStatus: 200,
  }),
  check: route({
    method: 'POST',
    path: '/api/backends/upgrades/check',
    access: 'admin',
    summary: 'Check galleries and registries for updates now',
    body: z.strictObject({}),
    response: upgrades,
  }),
  upgrade: route({
    method: 'POST',
    path: '/api/backends/:name/upgrade',
    access: 'admin',
    summary: 'Upgrade a backend where it is installed',
    params,
    body: UpgradeRequest,
    response: accepted,
    status: 202,
    otherStatus: 200,
  }),
  remove: route({
    method: 'DELETE',
    path: '/api/backends/:name',
    access: 'admin',
    summary: 'Delete a backend from nodes, including absent ones',
    params,
    query: DeleteQuery,
    response: accepted,
    status: 202,
    otherStatus: 200,
  }),
}
