// Which ends of replicas need no longer be remembered. Pure.
import type { ReplicaRecord } from './replica-record.ts'

/** Longer than any controller needs to ask how a load ended. */
const keptEnds = 64
const keptModels = 1024

/** Gone, not among the latest, and not the newest of its model: that one tells how the model is loaded. */
export function disposable(records: readonly ReplicaRecord[]): ReplicaRecord[] {
  const ended = records.filter(({ stage }) => stage.state === 'gone')
  const newest = new Map(records.map((record) => [record.order.model, record]))
  const needed = new Set([...ended.slice(-keptEnds), ...[...newest.values()].slice(-keptModels)])
  return ended.filter((record) => !needed.has(record))
}
