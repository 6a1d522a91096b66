// The queries of the page and their keys. Events change the data behind these keys (live-cache.ts).
import { type QueryKey, queryOptions } from '@tanstack/react-query'
import {
  backendRoutes,
  galleryRoutes,
  keyRoutes,
  type ModelName,
  modelRoutes,
  type NodeId,
  nodeRoutes,
  type OperationFilter,
  type OperationId,
  operationRoutes,
  statsRoutes,
  systemRoutes,
} from '@muster/protocol'
import { call } from './client.ts'

type NodeResource = 'intents' | 'backends' | 'replicas' | 'history'
type ModelResource = 'replicas' | 'load-status' | 'placement'

export const keys = {
  nodes: ['nodes'],
  node: (id: string, resource: NodeResource) => ['node', id, resource] as const,
  backends: ['backends'],
  upgrades: ['upgrades'],
  gallery: ['gallery'],
  galleryOf: (kind: 'backends' | 'models') => ['gallery', kind] as const,
  galleries: ['galleries'],
  models: ['models'],
  model: (name: string, resource: ModelResource) => ['model', name, resource] as const,
  /** A child of the `placement` key, so that invalidating the placement invalidates its previews. */
  placementPreview: (name: string, scheduling: string | null) => ['model', name, 'placement', scheduling] as const,
  operations: (filter: OperationFilter) => ['operations', filter] as const,
  operation: (id: string) => ['operation', id] as const,
  operationHistory: (id: string) => ['operation-history', id] as const,
  stats: ['stats'],
  status: ['status'],
  settings: ['settings'],
  settingChanges: ['setting-changes'],
  apiKeys: ['keys'],
  joinToken: ['join-token'],
  dryRun: (change: string | null, fingerprint: string) => ['dry-run', change, fingerprint] as const,
  validation: (name: string | null, text: string) => ['validate', name, text] as const,
} as const

type KeyedQuery = { readonly queryKey: QueryKey }

/** Matches this list of any node or model. */
export const isNodeQuery =
  (resource: NodeResource) =>
  ({ queryKey: [owner, , list] }: KeyedQuery): boolean =>
    owner === 'node' && list === resource
export const isModelQuery =
  (resource: ModelResource) =>
  ({ queryKey: [owner, , list] }: KeyedQuery): boolean =>
    owner === 'model' && list === resource
export const isOperationQuery = ({ queryKey: [kind] }: KeyedQuery): boolean => kind === 'operation'

const query = <K extends QueryKey, T>(queryKey: K, read: (context: { readonly signal: AbortSignal }) => Promise<T>) =>
  queryOptions({ queryKey, queryFn: ({ signal }) => read({ signal }) })

export const nodesQuery = query(keys.nodes, async (context) => (await call(nodeRoutes.list, context)).nodes)
export const nodeIntentsQuery = (id: NodeId) =>
  query(keys.node(id, 'intents'), async (context) => (await call(nodeRoutes.intents, { params: { id }, ...context })).intents)
export const nodeBackendsQuery = (id: NodeId) =>
  query(keys.node(id, 'backends'), async (context) => (await call(nodeRoutes.backends, { params: { id }, ...context })).backends)
export const nodeReplicasQuery = (id: NodeId) =>
  query(keys.node(id, 'replicas'), async (context) => (await call(nodeRoutes.models, { params: { id }, ...context })).replicas)
export const nodeHistoryQuery = (id: NodeId) =>
  query(keys.node(id, 'history'), (context) => call(nodeRoutes.history, { params: { id }, ...context }))

export const backendsQuery = query(keys.backends, async (context) => (await call(backendRoutes.list, context)).backends)
export const upgradesQuery = query(keys.upgrades, (context) => call(backendRoutes.upgrades, context))
export const backendGalleryQuery = query(keys.galleryOf('backends'), (context) => call(backendRoutes.gallery, context))
export const galleriesQuery = query(keys.galleries, async (context) => (await call(galleryRoutes.list, context)).galleries)

export const modelsQuery = query(keys.models, async (context) => (await call(modelRoutes.list, context)).models)
export const modelReplicasQuery = (name: ModelName) =>
  query(keys.model(name, 'replicas'), async (context) => (await call(modelRoutes.replicas, { params: { name }, ...context })).replicas)
export const modelLoadStatusQuery = (name: ModelName) =>
  query(keys.model(name, 'load-status'), (context) => call(modelRoutes.loadStatus, { params: { name }, ...context }))
export const modelPlacementQuery = (name: ModelName) =>
  query(keys.model(name, 'placement'), (context) => call(modelRoutes.placement, { params: { name }, ...context }))
export const modelGalleryQuery = query(keys.galleryOf('models'), (context) => call(modelRoutes.gallery, context))

export const operationsQuery = (state: OperationFilter) =>
  query(
    keys.operations(state),
    async (context) => (await call(operationRoutes.list, { query: { state, dismissed: state === 'all' }, ...context })).operations,
  )
export const operationHistoryQuery = (id: OperationId) =>
  query(keys.operationHistory(id), async (context) => (await call(operationRoutes.history, { params: { id }, ...context })).events)
export const operationQuery = (id: OperationId) =>
  query(keys.operation(id), (context) => call(operationRoutes.get, { params: { id }, ...context }))

export const statsQuery = query(keys.stats, async (context) => (await call(statsRoutes.stats, { query: {}, ...context })).buckets)
export const statusQuery = query(keys.status, (context) => call(systemRoutes.status, context))
export const settingsQuery = query(keys.settings, (context) => call(systemRoutes.settings, context))
export const settingChangesQuery = query(keys.settingChanges, (context) =>
  call(systemRoutes.settingChanges, { query: { limit: 20 }, ...context }),
)
export const keysQuery = query(keys.apiKeys, async (context) => (await call(keyRoutes.list, context)).keys)
