// Decides on a command to load a model, and which ended replicas need no record any more. Pure.
import type { Failure, LoadModel, ReplicaId } from '@muster/protocol'
import type { ReplicaRecord } from './replica-record.ts'

export type LoadVerdict = Readonly<{ do: 'accept' } | { do: 'join' } | { do: 'refuse'; failure: Failure }>

export type WorkerState = Readonly<{
  others: readonly Pick<ReplicaRecord, 'order' | 'stage'>[]
  isStopping: boolean
  /** Replicas whose records a newer version wrote. */
  newer: readonly ReplicaId[]
}>

export function decideLoad(order: LoadModel, { others, isStopping, newer }: WorkerState): LoadVerdict {
  if (isStopping) return refuse('unavailable', 'backoff', 'this worker is stopping; try again')
  const [unread] = newer
  if (unread !== undefined)
    return refuse(
      'incompatible',
      'backoff',
      `the record of replica ${unread} was written by a newer version of Muster; run that version on this worker again`,
    )
  const same = others.find((other) => other.order.replica_id === order.replica_id)
  if (same !== undefined) {
    if (isSame(same.order, order)) return { do: 'join' }
    return refuse(
      'conflict',
      'never',
      `the replica ${order.replica_id} is ${describe(same.order)} on this node; a replica ID is never used again`,
    )
  }
  const holder = others.find((other) => holdsSlot(other, order))
  if (holder === undefined) return { do: 'accept' }
  const message = `slot ${order.slot} of ${order.model} is taken on this node by the replica ${holder.order.replica_id}: unload that one first`
  return refuse('conflict', 'backoff', message)
}

/** A replica that is draining or stopping keeps the slot too, but its successor is accepted and waits. */
function holdsSlot({ order, stage }: WorkerState['others'][number], wanted: LoadModel): boolean {
  if (wanted.slot === undefined || wanted.stage_only === true || order.stage_only === true) return false
  if (order.model !== wanted.model || order.slot !== wanted.slot) return false
  return stage.state !== 'gone' && stage.state !== 'draining' && stage.state !== 'stopping'
}

const isSame = (a: LoadModel, b: LoadModel): boolean =>
  a.model === b.model &&
  a.revision === b.revision &&
  a.slot === b.slot &&
  a.backend === b.backend &&
  (a.stage_only ?? false) === (b.stage_only ?? false)

const describe = ({ model, revision, slot, backend }: LoadModel): string =>
  `${model} (${revision})${slot === undefined ? '' : `, slot ${slot},`} on ${backend}`

const refuse = (code: Failure['code'], retry: Failure['retry'], message: string): LoadVerdict => ({
  do: 'refuse',
  failure: { code, retry, message },
})

/** Enough for every controller to read how a load ended. */
const keptEnds = 64
const keptModels = 1024

/** Ended replicas that are not among the latest, and not the newest of their model, which records how to load it. */
export function findPrunable(records: readonly ReplicaRecord[]): ReplicaRecord[] {
  const ended = records.filter(({ stage }) => stage.state === 'gone')
  const newest = new Map(records.map((record) => [record.order.model, record]))
  const needed = new Set([...ended.slice(-keptEnds), ...[...newest.values()].slice(-keptModels)])
  return ended.filter((record) => !needed.has(record))
}
