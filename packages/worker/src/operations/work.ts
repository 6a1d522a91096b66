// One command that was accepted, and what is known of it.
import type { Failure, OperationId } from '@muster/protocol'
import type { Known } from './decide.ts'
import type { Entry } from './journal-format.ts'
import { wishOf, type Order, type Outcome } from './order.ts'

export interface Work {
  readonly id: number
  readonly order: Order
  /** Those that share its end: its own, and those that joined. */
  readonly opIds: Set<OperationId>
  epoch: number | null
  calledOff: Failure | null
  end: Readonly<{ outcome: Outcome; boot: number }> | null
  /** False while it is not in the journal. */
  isStored: boolean
}

export function note(work: Work, entry: Extract<Entry, { type: 'join' | 'cancel' | 'end' }>): void {
  if (entry.type === 'cancel') work.calledOff = entry.failure
  else if (entry.type === 'end') work.end = { outcome: entry.outcome, boot: entry.boot }
  else if (entry.epoch !== undefined) work.epoch = Math.max(work.epoch ?? 0, entry.epoch)
}

export function knownOf(work: Work): Known {
  return { ...wishOf(work.order), epoch: work.epoch, id: work.id, state: stateOf(work) }
}

function stateOf({ end, calledOff }: Work): Known['state'] {
  if (end !== null) return end.outcome.state
  return calledOff === null ? 'open' : 'ending'
}

/** As the journal tells it. */
export function entriesOf({ id, order, opIds, epoch, calledOff, end }: Work): Entry[] {
  const joined = [...opIds].filter((opId) => opId !== order.op_id)
  return [
    { type: 'order', id, order },
    ...joined.map((op_id): Entry => ({ type: 'join', id, op_id })),
    ...(epoch === null || epoch === order.epoch ? [] : [{ type: 'join' as const, id, epoch }]),
    ...(calledOff === null ? [] : [{ type: 'cancel' as const, id, failure: calledOff }]),
    ...(end === null ? [] : [{ type: 'end' as const, id, boot: end.boot, outcome: end.outcome }]),
  ]
}
