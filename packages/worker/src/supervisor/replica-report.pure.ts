// The events, statuses and log fields of a replica, from its record. Pure.
import type { BackendName, Digest, OperationId, OpStatusReply, ReplicaState } from '@muster/protocol'
import type { OutgoingEvent, ProgressState } from '../work/reports.ts'
import { type End, exitReason, type Stage } from './replica.pure.ts'
import type { ReplicaRecord } from './replica.ts'

export function publicState({ state }: Stage): ReplicaState {
  switch (state) {
    case 'accepted':
    case 'staging':
    case 'starting':
      return 'starting'
    case 'ready':
      return 'ready'
    case 'draining':
    case 'stopping':
      return 'draining'
    case 'gone':
      return 'exited'
  }
}

/** The events that a listener needs who received none so far. */
export function eventsOf(record: ReplicaRecord): OutgoingEvent[] {
  const { stage, opIds } = record
  if (stage.state === 'ready' || stage.state === 'draining')
    return fieldsPerOperation(record).map((about) => ({ type: 'replica.ready', ...about }))
  if (stage.state !== 'gone') return []
  const { end } = stage
  if (end.how === 'exited') return [exitedOf(record, end)]
  // A load without an operation reports the end of the replica itself.
  if (opIds.length === 0)
    return end.how === 'staged' ? [] : [{ type: 'replica.exited', ...eventFields(record), last_lines: [lastLine(end.failure.message)] }]
  return opIds.map((opId) => ({ type: 'op.result', ...loadStatus(opId, record, null) }))
}

export function loadStatus(opId: OperationId, record: ReplicaRecord, progress: ProgressState | null): OpStatusReply {
  const { order, stage } = record
  const digest = digestOf(record) ?? undefined
  const about = { op_id: opId, ...(order.epoch === undefined ? {} : { epoch: order.epoch }), ...(digest === undefined ? {} : { digest }) }
  switch (stage.state) {
    case 'accepted':
      return { ...about, state: 'accepted' }
    case 'staging':
    case 'starting':
      return { ...about, state: 'running', ...progressFields(progress) }
    case 'ready':
    case 'draining':
      return { ...about, state: 'succeeded' }
    case 'stopping':
      return stage.end === null ? { ...about, state: 'succeeded' } : { ...about, state: 'running', ...progressFields(progress) }
    case 'gone':
      return { ...about, ...outcomeOf(stage.end) }
  }
}

function outcomeOf(end: End): Pick<OpStatusReply, 'state' | 'failure'> {
  return end.how === 'failed' || end.how === 'cancelled' ? { state: end.how, failure: end.failure } : { state: 'succeeded' }
}

function progressFields(progress: ProgressState | null): Partial<OpStatusReply> {
  if (progress === null) return {}
  const { phase, current, total, seq } = progress
  return { current, total, progress_seq: seq, ...(phase === null ? {} : { phase }) }
}

function exitedOf(record: ReplicaRecord, { exit, isExpected }: Extract<End, { how: 'exited' }>): OutgoingEvent {
  return {
    type: 'replica.exited',
    ...eventFields(record),
    ...(exit.code === null ? {} : { exit_code: exit.code }),
    ...(exit.signal === null ? {} : { signal: exit.signal }),
    last_lines: exit.lines,
    expected: isExpected,
  }
}

const eventFields = (record: ReplicaRecord, opId: OperationId | undefined = record.opIds[0]) => ({
  replica_id: record.order.replica_id,
  model: record.order.model,
  revision: record.order.revision,
  backend_digest: digestOf(record),
  ...(opId === undefined ? {} : { op_id: opId }),
})

/** The digest in the inventory, so that a controller can compare the two. */
const digestOf = ({ listed, order, digest }: ReplicaRecord): Digest | null => listed ?? order.digest ?? digest

const fieldsPerOperation = (record: ReplicaRecord): ReturnType<typeof eventFields>[] =>
  record.opIds.length === 0 ? [eventFields(record)] : record.opIds.map((opId) => eventFields(record, opId))

const lastLine = (text: string): string => text.slice(0, 4096)

/** Log fields. */
export function replicaFields({ order, stage }: ReplicaRecord): Record<string, unknown> {
  const about: { replica_id: string; model: string; backend: BackendName; slot: number | undefined } = {
    replica_id: order.replica_id,
    model: order.model,
    backend: order.backend,
    slot: order.slot,
  }
  if (stage.state !== 'gone') return { ...about, state: stage.state }
  const { end } = stage
  return {
    ...about,
    state: end.how,
    ...(end.how === 'exited' ? { expected: end.isExpected, reason: exitReason(end.exit) } : {}),
    ...('failure' in end ? end.failure : {}),
  }
}
