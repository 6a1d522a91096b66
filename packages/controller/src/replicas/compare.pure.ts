// Compares the replicas that a heartbeat lists with the stored ones. Pure.
import { unreachable, type ReplicaId, type ReplicaState } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

/** The replica list of a heartbeat, with the sequence number and age of the heartbeat. */
export interface ReplicaList {
  readonly incarnation: string
  readonly seq: number
  /** Time since the heartbeat arrived. */
  readonly ageMs: number
  readonly replicas: readonly Readonly<{ replica_id: ReplicaId; state: ReplicaState }>[]
}
export type Finding =
  | Readonly<{ id: ReplicaId; is: 'ready' }>
  /** Without a reason, because the event was lost. */
  | Readonly<{ id: ReplicaId; is: 'exited' }>
  /** A process without a row is unloaded by its ID. */
  | Readonly<{ id: ReplicaId; is: 'orphan' }>

/** Prefix of the IDs that loads assign. Workers assign other IDs to processes that older controllers start. */
export const replicaPrefix = 'r'
const isOfLoad = (id: ReplicaId): boolean => id.startsWith(`${replicaPrefix}-`)

/** A list is made, sent and received within this time. */
const travelMs = 1_000
/** A starting replica without a load that its worker does not list for this long was never accepted. */
const forgottenMs = 30_000

export function compareReplicas(known: readonly ReplicaRecord[], list: ReplicaList): Finding[] {
  const listed = new Map(list.replicas.map((replica) => [replica.replica_id, replica.state]))
  const found = known.flatMap((replica) => judge(replica, listed.get(replica.id), list))
  const ids = new Set(known.map(({ id }) => id))
  const orphans = list.replicas.filter(({ replica_id: id, state }) => !ids.has(id) && isOfLoad(id) && state !== 'exited')
  return [...found, ...orphans.map(({ replica_id: id }): Finding => ({ id, is: 'orphan' }))]
}

function judge(replica: ReplicaRecord, state: ReplicaState | undefined, list: ReplicaList): Finding[] {
  if (replica.state === 'exited' || isOlder(list, replica)) return []
  const { id } = replica
  switch (state) {
    case 'ready':
      return replica.state === 'starting' || isUnconfirmed(replica, list) ? [{ id, is: 'ready' }] : []
    case 'exited':
      return [{ id, is: 'exited' }]
    case 'starting':
    case 'draining':
      return []
    case undefined:
      return isGone(replica, list) ? [{ id, is: 'exited' }] : []
    default:
      return unreachable(state)
  }
}

/** The worker restarted since its last report and found the process again. */
const isUnconfirmed = ({ state, stamp }: ReplicaRecord, { incarnation }: ReplicaList): boolean =>
  state === 'ready' && stamp !== null && stamp.incarnation !== incarnation

/** Workers number their messages: the last report about this replica may be newer than the list. */
const isOlder = ({ incarnation, seq }: ReplicaList, { stamp }: ReplicaRecord): boolean =>
  stamp !== null && stamp.incarnation === incarnation && seq <= stamp.seq

/** The list lacks the replica. A load that was sent just now may be missing in a list that was made before. */
function isGone({ state, ageMs, hasLoad }: ReplicaRecord, list: ReplicaList): boolean {
  // A load queries its starting replica; replicas without a load are not queried.
  if (state === 'starting') return !hasLoad && ageMs > list.ageMs + forgottenMs
  return ageMs > list.ageMs + travelMs
}
