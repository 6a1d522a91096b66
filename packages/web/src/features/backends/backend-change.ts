// A wish about a backend as it is filled in on a sheet, and how it is sent: to be shown what would happen, or for good.
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import {
  type BackendName,
  backendRoutes,
  type BackendView,
  type DeleteQuery,
  type InstallRequest,
  type NodeId,
  type NodeView,
  type OperationId,
  type OperationView,
  type ReplicaView,
  type Selector,
  type UpgradeRequest,
} from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendsQuery, keys, modelReplicasQuery, modelsQuery, nodesQuery } from '../../api/queries.ts'
import { useSettled } from '../../components/field.tsx'
import { parseSelector } from './parse-selector.ts'
import type { PreviewFacts, UsedBy } from './preview.pure.ts'

export type Wish =
  | { readonly kind: 'backend.install'; readonly body: InstallRequest }
  | { readonly kind: 'backend.upgrade'; readonly name: BackendName; readonly body: UpgradeRequest }
  | { readonly kind: 'backend.delete'; readonly name: BackendName; readonly query: Pick<DeleteQuery, 'node' | 'force'> }

/** What is chosen stays chosen while another way of choosing is looked at. */
export interface Targets {
  readonly by: 'all' | 'nodes' | 'labels'
  readonly nodes: readonly NodeId[]
  readonly labels: string
}
export const everywhere: Targets = { by: 'all', nodes: [], labels: '' }

/** As a request names them; `problem`: why it can't be asked yet. */
export function namedTargets({ by, nodes, labels }: Targets): { nodes?: NodeId[]; selector?: Selector } | { problem: string } {
  if (by === 'all') return {}
  if (by === 'nodes') return nodes.length === 0 ? { problem: 'Choose at least one node.' } : { nodes: [...nodes] }
  return parseSelector(labels)
}

export async function dryRun(wish: Wish, signal: AbortSignal): Promise<OperationView> {
  const answer = await send(wish, { isDry: true, signal })
  if ('operation_id' in answer) throw new Error('the controller has made this wish instead of showing it')
  return answer
}

export async function make(wish: Wish): Promise<OperationId> {
  const answer = await send(wish, { isDry: false })
  return 'operation_id' in answer ? answer.operation_id : answer.id
}

function send(wish: Wish, { isDry, signal }: { isDry: boolean; signal?: AbortSignal }) {
  const more = { ...(signal === undefined ? {} : { signal }) }
  const dry = isDry ? { dry_run: true } : {}
  switch (wish.kind) {
    case 'backend.install':
      return call(backendRoutes.install, { body: { ...wish.body, ...dry }, ...more })
    case 'backend.upgrade':
      return call(backendRoutes.upgrade, { params: { name: wish.name }, body: { ...wish.body, ...dry }, ...more })
    case 'backend.delete':
      return call(backendRoutes.remove, { params: { name: wish.name }, query: { ...wish.query, dry_run: isDry }, ...more })
  }
}

/** `wish` is null while it can't be asked for. `world`: what the answer depends on beside the wish; another one asks again. */
export function useDryRun(wish: Wish | null, world: string) {
  const text = wish === null ? null : JSON.stringify(wish)
  const asked = useSettled(text)
  const query = useQuery({
    queryKey: keys.dryRun(asked, world),
    // It was made of a wish a moment ago.
    queryFn: ({ signal }) => dryRun(JSON.parse(asked ?? '') as Wish, signal),
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  const isCurrent = text !== null && asked === text && query.isSuccess && !query.isPlaceholderData
  return { query, isCurrent }
}

export interface BackendFacts extends PreviewFacts {
  readonly backend: BackendView | undefined
  /** Those that can have backends, by name. */
  readonly nodes: readonly NodeView[]
  readonly usedBy: readonly UsedBy[]
  /** Changes when a dry run would be answered otherwise. */
  readonly world: string
}

export function useFacts(name: string): BackendFacts {
  const known = useQuery(nodesQuery).data ?? []
  const backend = useQuery(backendsQuery).data?.find((each) => each.name === name)
  const models = useQuery(modelsQuery).data ?? []
  const using = models.filter((model) => model.backend === name || model.backend === backend?.metadata.name)
  const replicas = useQueries({ queries: using.map((model) => modelReplicasQuery(model.name)), combine: dataOf })
  const nodes = known.filter(({ node_type: type, approved_at: approved }) => type !== 'agent' && approved !== null)
  const living = replicas.filter(({ state }) => state !== 'exited')
  return {
    backend,
    nodes,
    statuses: new Map(nodes.map(({ id, status }) => [id, status])),
    installed: new Map((backend?.nodes ?? []).map((node) => [node.node_id, node])),
    usedBy: living.map(({ model, node_id: nodeId, node_name: nodeName }) => ({ model, nodeId, nodeName })),
    world: JSON.stringify([
      nodes.map(({ id, status }) => [id, status]),
      backend?.nodes.map(({ node_id: id, digest }) => [id, digest]),
      living.map(({ id }) => id),
    ]),
  }
}

const dataOf = (results: readonly { readonly data?: readonly ReplicaView[] | undefined }[]): readonly ReplicaView[] =>
  results.flatMap(({ data }) => data ?? [])
