// An intent as the API shows it, with the reason why it is not applied yet. Pure.
import { isOpen, viewOpenIntent, presenceOf, type IntentView } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { NodeRecord } from '../store/nodes.ts'

export function viewIntent({ intent, bytes, requestedAt }: IntentRecord, node: NodeRecord): IntentView {
  const { backend, kind, state, generation, opId, attempts, lastFailure } = intent
  const about = { backend, kind, state, generation, operation_id: opId, attempts, failure: lastFailure, requested_at: requestedAt }
  if (!isOpen(intent)) {
    const message = intent.state === 'failed' || intent.state === 'dead' ? (lastFailure?.message ?? '') : intent.note
    return { ...about, next_retry_at: null, finished_at: new Date(intent.finishedAt).toISOString(), message }
  }
  const presence = presenceOf({ ...node, approved: node.approvedAt !== null })
  const { message, nextRetryAt } = viewOpenIntent(intent, presence, bytes.percentage > 0)
  return { ...about, next_retry_at: nextRetryAt === null ? null : new Date(nextRetryAt).toISOString(), finished_at: null, message }
}
