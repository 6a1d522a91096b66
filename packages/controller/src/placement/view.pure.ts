// The placement preview of the API.
import type { Failure, PlacementView } from '@muster/protocol'
import type { NodeRecord } from '../store/nodes.ts'
import type { ReplicaRecord } from '../store/replicas.ts'
import type { Placement } from './placement.pure.ts'

export function viewPlacement({ nodes, eviction }: Placement, victims: readonly Pick<ReplicaRecord, 'id' | 'model'>[]): PlacementView {
  const modelOf = new Map(victims.map(({ id, model }) => [id, model]))
  return {
    nodes: nodes.map(({ node_id, node_name, eligible, reason, score, excludedBy }) => ({
      ...{ node_id, node_name, eligible, reason, score },
      excluded_by: excludedBy,
    })),
    eviction:
      eviction === null
        ? null
        : {
            node_id: eviction.nodeId,
            node_name: nodes.find(({ node_id: id }) => id === eviction.nodeId)?.node_name ?? '',
            replicas: eviction.victims.flatMap((id) => {
              const model = modelOf.get(id)
              return model === undefined ? [] : [{ id, model }]
            }),
          },
  }
}

export const viewNowhere = (nodes: readonly Pick<NodeRecord, 'id' | 'name'>[], { message }: Failure): PlacementView => ({
  nodes: nodes.map(({ id, name }) => ({ node_id: id, node_name: name, eligible: false, reason: message, score: 0, excluded_by: 'unfit' })),
  eviction: null,
})
