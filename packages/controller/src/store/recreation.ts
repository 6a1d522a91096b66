// The second way of an upgrade: where the disk is too small for two versions, the old one goes before the new one comes. Pure.
import type { Intent } from '@muster/protocol'
import type { IntentRecord } from './intent-rows.ts'

/** What is written beside the step that a failure was; nothing when the next try is like the last. */
export function recreation({ plan, intent }: Pick<IntentRecord, 'plan' | 'intent'>, to: Intent): Readonly<Record<string, unknown>> {
  const isShort = to.state === 'waiting' && to.attempts > intent.attempts && to.lastFailure?.code === 'disk_full'
  const isBeside = intent.kind === 'upgrade' && plan.strategy === 'rolling' && plan.rollback === undefined
  if (!isShort || !isBeside || to.cancelRequested) return {}
  // It is another wish, so to speak: nothing was tried of it yet, and it is due at once.
  return { strategy: 'recreate', attempts: 0, last_failure: null, note: 'recreate: the disk is too small for two versions' }
}
