// What is read of the server, each with its key. Events (live-cache.ts) change what these hold.
import {
  backendRoutes,
  galleryRoutes,
  keyRoutes,
  modelRoutes,
  nodeRoutes,
  operationRoutes,
  statsRoutes,
  systemRoutes,
  type ModelName,
  type NodeId,
  type OperationFilter,
  type OperationId,
} from '@muster/protocol'
import { queryOptions } from '@tanstack/react-query'
import { call } from './client.ts'

export const nodesQuery = queryOptions({
  queryKey: ['nodes'],
  queryFn: async ({ signal }) => (await call(nodeRoutes.list, { signal })).nodes,
})
export const nodeIntentsQuery = (id: NodeId) =>
  queryOptions({
    queryKey: ['node', id, 'intents'],
    queryFn: async ({ signal }) => (await call(nodeRoutes.intents, { params: { id }, signal })).intents,
  })
export const nodeBackendsQuery = (id: NodeId) =>
  queryOptions({
    queryKey: ['node', id, 'backends'],
    queryFn: async ({ signal }) => (await call(nodeRoutes.backends, { params: { id }, signal })).backends,
  })
export const nodeReplicasQuery = (id: NodeId) =>
  queryOptions({
    queryKey: ['node', id, 'replicas'],
    queryFn: async ({ signal }) => (await call(nodeRoutes.models, { params: { id }, signal })).replicas,
  })
export const nodeHistoryQuery = (id: NodeId) =>
  queryOptions({
    queryKey: ['node', id, 'history'],
    queryFn: ({ signal }) => call(nodeRoutes.history, { params: { id }, signal }),
  })

export const backendsQuery = queryOptions({
  queryKey: ['backends'],
  queryFn: async ({ signal }) => (await call(backendRoutes.list, { signal })).backends,
})
export const upgradesQuery = queryOptions({
  queryKey: ['upgrades'],
  queryFn: ({ signal }) => call(backendRoutes.upgrades, { signal }),
})
export const backendGalleryQuery = queryOptions({
  queryKey: ['gallery', 'backends'],
  queryFn: ({ signal }) => call(backendRoutes.gallery, { signal }),
})
export const galleriesQuery = queryOptions({
  queryKey: ['galleries'],
  queryFn: async ({ signal }) => (await call(galleryRoutes.list, { signal })).galleries,
})

export const modelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: async ({ signal }) => (await call(modelRoutes.list, { signal })).models,
})
export const modelReplicasQuery = (name: ModelName) =>
  queryOptions({
    queryKey: ['model', name, 'replicas'],
    queryFn: async ({ signal }) => (await call(modelRoutes.replicas, { params: { name }, signal })).replicas,
  })
export const modelLoadStatusQuery = (name: ModelName) =>
  queryOptions({
    queryKey: ['model', name, 'load-status'],
    queryFn: ({ signal }) => call(modelRoutes.loadStatus, { params: { name }, signal }),
  })
export const modelPlacementQuery = (name: ModelName) =>
  queryOptions({
    queryKey: ['model', name, 'placement'],
    queryFn: ({ signal }) => call(modelRoutes.placement, { params: { name }, signal }),
  })
export const modelGalleryQuery = queryOptions({
  queryKey: ['gallery', 'models'],
  queryFn: ({ signal }) => call(modelRoutes.gallery, { signal }),
})

export const operationsQuery = (state: OperationFilter) =>
  queryOptions({
    queryKey: ['operations', state],
    queryFn: async ({ signal }) => (await call(operationRoutes.list, { query: { state }, signal })).operations,
  })
export const operationQuery = (id: OperationId) =>
  queryOptions({
    queryKey: ['operation', id],
    queryFn: ({ signal }) => call(operationRoutes.get, { params: { id }, signal }),
  })

export const statsQuery = queryOptions({
  queryKey: ['stats'],
  queryFn: async ({ signal }) => (await call(statsRoutes.stats, { query: {}, signal })).buckets,
})
export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: ({ signal }) => call(systemRoutes.status, { signal }),
})
export const settingsQuery = queryOptions({
  queryKey: ['settings'],
  queryFn: ({ signal }) => call(systemRoutes.settings, { signal }),
})
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: async ({ signal }) => (await call(keyRoutes.list, { signal })).keys,
})
