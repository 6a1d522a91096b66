// A change of a backend as a sheet describes it: its dry run, its submission, and the facts that its preview needs.
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
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
  parseSelector,
  type ReplicaView,
  type Selector,
  type UpgradeRequest,
} from '@muster/protocol'
import { call } from '../../api/client.ts'
import { backendsQuery, keys, modelReplicasQuery, modelsQuery, nodesQuery } from '../../api/queries.ts'
import { useDebounced } from '../../components/field.tsx'
import type { PreviewFacts, RunningReplica } from './preview.pure.ts'

export type BackendChange =
  | { readonly kind: 'backend.install'; readonly body: InstallRequest }
  | { readonly kind: 'backend.upgrade'; readonly name: BackendName; readonly body: UpgradeRequest }
  | { readonly kind: 'backend.delete'; readonly name: BackendName; readonly query: Pick<DeleteQuery, 'node' | 'force'> }

/** Nodes and labels are kept while another way of selecting is active. */
export interface Targets {
  readonly by: 'all' | 'nodes' | 'labels'
  readonly nodes: readonly NodeId[]
  readonly labels: string
}
const allNodes: Targets = { by: 'all', nodes: [], labels: '' }

type Selection = { nodes?: NodeId[]; selector?: Selector }

/** The selected nodes of a sheet; `selection` is null while the input has a problem. */
export function useTargets() {
  const [targets, setTargets] = useState(allNodes)
  const read = readTargets(targets)
  const problem = 'problem' in read ? read.problem : null
  return { targets, onChange: setTargets, problem, selection: 'problem' in read ? null : read }
}

/** The fields of a request, or the problem with the input. */
function readTargets({ by, nodes, labels }: Targets): Selection | { problem: string } {
  if (by === 'all') return {}
  if (by === 'nodes') return nodes.length === 0 ? { problem: 'Select at least one node.' } : { nodes: [...nodes] }
  return parseSelector(labels.split('\n').filter((line) => line.trim() !== ''))
}

async function dryRunChange(change: BackendChange, signal: AbortSignal): Promise<OperationView> {
  const response = await send(change, { isDry: true, signal })
  if ('operation_id' in response) throw new Error('the controller started an operation instead of a dry run')
  return response
}

export async function submitChange(change: BackendChange): Promise<OperationId> {
  const response = await send(change, { isDry: false })
  return 'operation_id' in response ? response.operation_id : response.id
}

function send(change: BackendChange, { isDry, signal }: { isDry: boolean; signal?: AbortSignal }) {
  const more = { ...(signal === undefined ? {} : { signal }) }
  const dry = isDry ? { dry_run: true } : {}
  switch (change.kind) {
    case 'backend.install':
      return call(backendRoutes.install, { body: { ...change.body, ...dry }, ...more })
    case 'backend.upgrade':
      return call(backendRoutes.upgrade, { params: { name: change.name }, body: { ...change.body, ...dry }, ...more })
    case 'backend.delete':
      return call(backendRoutes.remove, { params: { name: change.name }, query: { ...change.query, dry_run: isDry }, ...more })
  }
}

/** Repeats the dry run shortly after the change or the cluster's fingerprint changed; the last result stays meanwhile. */
export function useDryRun(change: BackendChange | null, fingerprint: string) {
  const text = change === null ? null : JSON.stringify(change)
  const settled = useDebounced(text)
  const query = useQuery({
    queryKey: keys.dryRun(settled, fingerprint),
    queryFn: ({ signal }) => dryRunChange(JSON.parse(settled ?? '') as BackendChange, signal),
    enabled: settled !== null,
    placeholderData: keepPreviousData,
    staleTime: 0,
    gcTime: 0,
    retry: false,
  })
  const isCurrent = text !== null && settled === text && query.isSuccess && !query.isPlaceholderData
  return { query, isCurrent }
}

export interface BackendFacts extends PreviewFacts {
  readonly backend: BackendView | undefined
  /** Nodes that can run backends, by name. */
  readonly nodes: readonly NodeView[]
  readonly replicas: readonly RunningReplica[]
  /** Changes when a dry run may have another result. */
  readonly fingerprint: string
}

export function useBackendFacts(name: string): BackendFacts {
  const all = useQuery(nodesQuery).data ?? []
  const backend = useQuery(backendsQuery).data?.find((each) => each.name === name)
  const models = useQuery(modelsQuery).data ?? []
  const using = models.filter((model) => model.backend === name || model.backend === backend?.metadata.name)
  const replicas = useQueries({ queries: using.map((model) => modelReplicasQuery(model.name)), combine: dataOf })
  const nodes = all.filter(({ node_type: type, approved_at: approved }) => type !== 'agent' && approved !== null)
  const live = replicas.filter(({ state }) => state !== 'exited')
  return {
    backend,
    nodes,
    statuses: new Map(nodes.map(({ id, status }) => [id, status])),
    installed: new Map((backend?.nodes ?? []).map((node) => [node.node_id, node])),
    replicas: live.map(({ model, node_id: nodeId, node_name: nodeName }) => ({ model, nodeId, nodeName })),
    fingerprint: JSON.stringify([
      nodes.map(({ id, status }) => [id, status]),
      backend?.nodes.map(({ node_id: id, digest }) => [id, digest]),
      live.map(({ id }) => id),
    ]),
  }
}

const dataOf = (results: readonly { readonly data?: readonly ReplicaView[] | undefined }[]): readonly ReplicaView[] =>
  results.flatMap(({ data }) => data ?? [])
