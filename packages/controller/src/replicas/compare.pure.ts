// What a node says it runs, compared with what is known of it. Pure.
import { unreachable, type ReplicaId, type ReplicaState } from '@muster/protocol'
import type { ReplicaRecord } from '../store/replicas.ts'

/** A heartbeat's list, and what it is as of. */
export interface Said {
  readonly incarnation: string
  readonly seq: number
  /** How long ago it arrived. */
  readonly ageMs: number
  readonly replicas: readonly Readonly<{ replica_id: ReplicaId; state: ReplicaState }>[]
}
export type Finding =
  | Readonly<{ id: ReplicaId; is: 'ready' }>
  /** Without its reason: the event that told it was lost. */
  | Readonly<{ id: ReplicaId; is: 'exited' }>
  /** A process that belongs to nobody (any more), and is to end: that one, by its id. */
  | Readonly<{ id: ReplicaId; is: 'orphan' }>

/** Ids of replicas that a load made begin so. A worker gives others to what controllers of the original's kind start there. */
export const replicaPrefix = 'r'
const isOurs = (id: ReplicaId): boolean => id.startsWith(`${replicaPrefix}-`)

/** A list is made, sent and heard within that time: one that arrived later is as of after. */
const travelMs = 1_000
/** A load that nobody holds and that its worker does not list was never taken on. */
const forgottenMs = 30_000

export function compareReplicas(known: readonly ReplicaRecord[], said: Said): Finding[] {
  const listed = new Map(said.replicas.map((replica) => [replica.replica_id, replica.state]))
  const found = known.flatMap((replica) => judge(replica, listed.get(replica.id), said))
  const ids = new Set(known.map(({ id }) => id))
  const orphans = said.replicas.filter(({ replica_id: id, state }) => !ids.has(id) && isOurs(id) && state !== 'exited')
  return [...found, ...orphans.map(({ replica_id: id }): Finding => ({ id, is: 'orphan' }))]
}

function judge(replica: ReplicaRecord, state: ReplicaState | undefined, said: Said): Finding[] {
  if (replica.state === 'exited' || isOlder(said, replica)) return []
  const { id } = replica
  switch (state) {
    case 'ready':
      return replica.state === 'starting' || isUnconfirmed(replica, said) ? [{ id, is: 'ready' }] : []
    case 'exited':
      return [{ id, is: 'exited' }]
    case 'starting':
    case 'draining':
      return []
    case undefined:
      return isSurelyGone(replica, said) ? [{ id, is: 'exited' }] : []
    default:
      return unreachable(state)
  }
}

/** Its worker began anew since it was last heard of: that it found it again is news. */
const isUnconfirmed = ({ state, stamp }: ReplicaRecord, { incarnation }: Said): boolean =>
  state === 'ready' && stamp !== null && stamp.incarnation !== incarnation

/** The worker numbers all that it says: what is known of this replica may be newer than the list. */
const isOlder = ({ incarnation, seq }: Said, { stamp }: ReplicaRecord): boolean =>
  stamp !== null && stamp.incarnation === incarnation && seq <= stamp.seq

/** It is not listed. A load that was sent just now may not be in a list that was made before. */
function isSurelyGone({ state, ageMs, hasLoad }: ReplicaRecord, said: Said): boolean {
  // Its load asks about it; what nobody holds, nobody asks about.
  if (state === 'starting') return !hasLoad && ageMs > said.ageMs + forgottenMs
  return ageMs > said.ageMs + travelMs
}
