// What becomes of a replica that no load holds: its node was away, or its model changed. Pure.
import { OperationId, type Load, type LoadEvent } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

/** `wait`: it is not known yet whether its slot is taken. */
export type Fate = Readonly<{ do: 'drain' } | { do: 'wait' } | { do: 'return'; to: Load }>

type Left = Pick<ReplicaRecord, 'revision' | 'opId' | 'nodeId' | 'state' | 'isNodeDraining'>

/** `loads`: of its model, as they are now. */
export function fateOf(replica: Left, loads: readonly Load[]): Fate {
  // Of an older revision: it gets nothing new, and takes the place that the new one needs.
  const serving = loads.filter(({ purpose, revision }) => purpose === 'serve' && revision === replica.revision)
  if (replica.opId === null) return { do: 'drain' }
  const open = serving.find(isOpen)
  if (open !== undefined) return canReturn(replica) ? { do: 'return', to: open } : { do: 'wait' }
  return serving.some((load) => isInTheWayOf(replica, load)) ? { do: 'wait' } : { do: 'drain' }
}

/** What starts on a node that is drained is of no use there: its load would leave it again. What is ready serves on. */
const canReturn = ({ state, isNodeDraining }: Left): boolean => state === 'ready' || !isNodeDraining

const isOpen = ({ state }: Load): boolean => state === 'waiting' || state === 'failed' || state === 'installing'

/** Its node may refuse the load because of this replica; then the slot is open after all. */
const isInTheWayOf = ({ nodeId }: Pick<ReplicaRecord, 'nodeId'>, load: Load): boolean => load.state === 'starting' && load.nodeId === nodeId

/** That it has its slot again. */
export const returnOf = ({ id, nodeId, opId, state }: ReplicaRecord): Extract<LoadEvent, { type: 'returned' }> => ({
  ...{ type: 'returned', nodeId, replicaId: id, opId: OperationId.parse(opId), isReady: state === 'ready' },
})
