// What `op.status` answers and `op.result` says of one operation.
import type { OperationId, OpStatusReply } from '@muster/protocol'
import type { ProgressState } from './progress-reporter.ts'
import type { Work } from './work.ts'

/** Null: its turn has not come. */
export function statusOf(opId: OperationId, work: Work | null, progress: ProgressState | null = null): OpStatusReply {
  if (work === null) return { op_id: opId, state: 'unknown' }
  const { generation } = work.order
  const about = { op_id: opId, ...(generation === undefined ? {} : { generation }), ...(work.epoch === null ? {} : { epoch: work.epoch }) }
  if (work.end !== null) return { ...about, ...work.end.outcome }
  if (progress === null) return { ...about, state: 'accepted' }
  const { phase, current, total, seq } = progress
  return { ...about, state: 'running', current, total, progress_seq: seq, ...(phase === null ? {} : { phase }) }
}
