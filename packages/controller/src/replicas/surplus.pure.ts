// Decides about replicas without a load: their node was absent, or their model changed. Pure.
import { OperationId, type Load, type LoadEvent } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

/** `wait`: a load may still be refused because of this replica, and then take it. */
export type Fate = Readonly<{ do: 'drain' } | { do: 'wait' } | { do: 'return'; to: Load }>

type UnownedReplica = Pick<ReplicaRecord, 'revision' | 'opId' | 'nodeId' | 'state' | 'isNodeDraining'>

/** `loads`: the current loads of its model. */
export function fateOf(replica: UnownedReplica, loads: readonly Load[]): Fate {
  // A replica of an older revision drains: no load needs it, and the new one needs its memory.
  const serving = loads.filter(({ purpose, revision }) => purpose === 'serve' && revision === replica.revision)
  if (replica.opId === null) return { do: 'drain' }
  const open = serving.find(isOpen)
  if (open !== undefined) return canReturn(replica) ? { do: 'return', to: open } : { do: 'wait' }
  return serving.some((load) => isInTheWayOf(replica, load)) ? { do: 'wait' } : { do: 'drain' }
}

/** A replica that starts on a draining node is useless: its load would leave the node again. A ready one keeps serving. */
const canReturn = ({ state, isNodeDraining }: UnownedReplica): boolean => state === 'ready' || !isNodeDraining

const isOpen = ({ state }: Load): boolean => state === 'waiting' || state === 'failed' || state === 'installing'

/** The node may refuse the load because of this replica; then the load can take it. */
const isInTheWayOf = ({ nodeId }: Pick<ReplicaRecord, 'nodeId'>, load: Load): boolean => load.state === 'starting' && load.nodeId === nodeId

/** Event of the load that takes the replica back. */
export const returnOf = ({ id, nodeId, opId, state }: ReplicaRecord): Extract<LoadEvent, { type: 'returned' }> => ({
  ...{ type: 'returned', nodeId, replicaId: id, opId: OperationId.parse(opId), isReady: state === 'ready' },
})
