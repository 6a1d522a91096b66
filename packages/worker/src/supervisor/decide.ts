// What becomes of a command to load a model, given what this worker has. Pure.
import type { Failure, LoadModel, ReplicaId } from '@muster/protocol'
import type { ReplicaRecord } from './replica-record.ts'

export type LoadVerdict = Readonly<{ do: 'accept' } | { do: 'join' } | { do: 'refuse'; failure: Failure }>

export type Having = Readonly<{
  others: readonly Pick<ReplicaRecord, 'order' | 'stage'>[]
  isStopping: boolean
  /** Replicas that a newer version noted. */
  newer: readonly ReplicaId[]
}>

export function decideLoad(order: LoadModel, { others, isStopping, newer }: Having): LoadVerdict {
  if (isStopping) return refuse('unavailable', 'backoff', 'this worker is stopping; try again')
  const [unread] = newer
  if (unread !== undefined)
    return refuse(
      'incompatible',
      'backoff',
      `the replica ${unread} was noted by a newer version of Muster: run that version on this worker again`,
    )
  const same = others.find((other) => other.order.replica_id === order.replica_id)
  if (same !== undefined) {
    if (isSame(same.order, order)) return { do: 'join' }
    return refuse(
      'conflict',
      'never',
      `the replica ${order.replica_id} is ${describe(same.order)} here, and a replica's id is never used again`,
    )
  }
  const holder = others.find((other) => holdsSlot(other, order))
  if (holder === undefined) return { do: 'accept' }
  const message = `slot ${order.slot} of ${order.model} is taken on this node by the replica ${holder.order.replica_id}: unload that one first`
  return refuse('conflict', 'backoff', message)
}

/** What is on its way out keeps the slot too, but its successor waits for it. */
function holdsSlot({ order, stage }: Having['others'][number], wanted: LoadModel): boolean {
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
