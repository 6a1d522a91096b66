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
  apiKeys: ['keys'],
  joinToken: ['join-token'],
  dryRun: (change: string | null, fingerprint: string) => ['dry-run', change, fingerprint] as const,
  validation: (name: string | null, text: string) => ['validate', name, text] as const,
} as const

type Keyed = { readonly queryKey: QueryKey }

/** Matches this list of any node or model. */
export const isNodeQuery =
  (resource: NodeResource) =>
  ({ queryKey: [owner, , list] }: Keyed): boolean =>
    owner === 'node' && list === resource
export const isModelQuery =
  (resource: ModelResource) =>
  ({ queryKey: [owner, , list] }: Keyed): boolean =>
    owner === 'model' && list === resource
export const isOperationQuery = ({ queryKey: [kind] }: Keyed): boolean => kind === 'operation'

export const nodesQuery = queryOptions({
  queryKey: keys.nodes,
  queryFn: async ({ signal }) => (await call(nodeRoutes.list, { signal })).nodes,
})
export const nodeIntentsQuery = (id: NodeId) =>
  queryOptions({
    queryKey: keys.node(id, 'intents'),
    queryFn: async ({ signal }) => (await call(nodeRoutes.intents, { params: { id }, signal })).intents,
  })
export const nodeBackendsQuery = (id: NodeId) =>
  queryOptions({
    queryKey: keys.node(id, 'backends'),
    queryFn: async ({ signal }) => (await call(nodeRoutes.backends, { params: { id }, signal })).backends,
  })
export const nodeReplicasQuery = (id: NodeId) =>
  queryOptions({
    queryKey: keys.node(id, 'replicas'),
    queryFn: async ({ signal }) => (await call(nodeRoutes.models, { params: { id }, signal })).replicas,
  })
export const nodeHistoryQuery = (id: NodeId) =>
  queryOptions({
    queryKey: keys.node(id, 'history'),
    queryFn: ({ signal }) => call(nodeRoutes.history, { params: { id }, signal }),
  })

export const backendsQuery = queryOptions({
  queryKey: keys.backends,
  queryFn: async ({ signal }) => (await call(backendRoutes.list, { signal })).backends,
})
export const upgradesQuery = queryOptions({
  queryKey: keys.upgrades,
  queryFn: ({ signal }) => call(backendRoutes.upgrades, { signal }),
})
export const backendGalleryQuery = queryOptions({
  queryKey: keys.galleryOf('backends'),
  queryFn: ({ signal }) => call(backendRoutes.gallery, { signal }),
})
export const galleriesQuery = queryOptions({
  queryKey: keys.galleries,
  queryFn: async ({ signal }) => (await call(galleryRoutes.list, { signal })).galleries,
})

export const modelsQuery = queryOptions({
  queryKey: keys.models,
  queryFn: async ({ signal }) => (await call(modelRoutes.list, { signal })).models,
})
export const modelReplicasQuery = (name: ModelName) =>
  queryOptions({
    queryKey: keys.model(name, 'replicas'),
    queryFn: async ({ signal }) => (await call(modelRoutes.replicas, { params: { name }, signal })).replicas,
  })
export const modelLoadStatusQuery = (name: ModelName) =>
  queryOptions({
    queryKey: keys.model(name, 'load-status'),
    queryFn: ({ signal }) => call(modelRoutes.loadStatus, { params: { name }, signal }),
  })
export const modelPlacementQuery = (name: ModelName) =>
  queryOptions({
    queryKey: keys.model(name, 'placement'),
    queryFn: ({ signal }) => call(modelRoutes.placement, { params: { name }, signal }),
  })
export const modelGalleryQuery = queryOptions({
  queryKey: keys.galleryOf('models'),
  queryFn: ({ signal }) => call(modelRoutes.gallery, { signal }),
})

export const operationsQuery = (state: OperationFilter) =>
  queryOptions({
    queryKey: keys.operations(state),
    queryFn: async ({ signal }) => (await call(operationRoutes.list, { query: { state }, signal })).operations,
  })
export const operationHistoryQuery = (id: OperationId) =>
  queryOptions({
    queryKey: keys.operationHistory(id),
    queryFn: async ({ signal }) => (await call(operationRoutes.history, { params: { id }, signal })).events,
  })
export const operationQuery = (id: OperationId) =>
  queryOptions({
    queryKey: keys.operation(id),
    queryFn: ({ signal }) => call(operationRoutes.get, { params: { id }, signal }),
  })

export const statsQuery = queryOptions({
  queryKey: keys.stats,
  queryFn: async ({ signal }) => (await call(statsRoutes.stats, { query: {}, signal })).buckets,
})
export const statusQuery = queryOptions({
  queryKey: keys.status,
  queryFn: ({ signal }) => call(systemRoutes.status, { signal }),
})
export const settingsQuery = queryOptions({
  queryKey: keys.settings,
  queryFn: ({ signal }) => call(systemRoutes.settings, { signal }),
})
export const keysQuery = queryOptions({
  queryKey: keys.apiKeys,
  queryFn: async ({ signal }) => (await call(keyRoutes.list, { signal })).keys,
})
