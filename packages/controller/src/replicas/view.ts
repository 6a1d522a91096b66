// View of a replica in the API.
import type { ReplicaId, ReplicaView } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

export function viewReplica(replica: ReplicaRecord, inFlight: (id: ReplicaId) => number): ReplicaView {
  const { id, model, revision, state, nodeId, nodeName, isReachable, backendDigest, createdAt } = replica
  const isLive = state !== 'exited'
  return {
    ...{ id, model, revision, node_id: nodeId, node_name: nodeName, state, backend_digest: backendDigest, started_at: createdAt },
    reachable: isLive && isReachable,
    in_flight: isLive ? inFlight(id) : 0,
  }
}
