// What a sheet has to know beside the dry run: who has the backend, who is here, and which models run on it.
import type { BackendView, NodeView, ReplicaView } from '@muster/protocol'
import { useQueries, useQuery } from '@tanstack/react-query'
import { backendsQuery, modelReplicasQuery, modelsQuery, nodesQuery } from '../../api/queries.ts'
import type { PreviewFacts, UsedBy } from './preview.ts'

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
