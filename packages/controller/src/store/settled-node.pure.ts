// Decides how the end of an intent is shown on the nodes of operations that wait for it. Pure.
import { unreachable, type Intent } from '@muster/protocol'
import type { Plan } from './plan.ts'

export type NodeEnd = Readonly<
  { status: 'success' | 'cancelled'; error: null; errorCode: null } | { status: 'error'; error: string; errorCode: string }
>

/** Null while the intent is open. An applied rollback is not a success. */
export function nodeEndOf(intent: Intent, { rollback }: Pick<Plan, 'rollback'>): NodeEnd | null {
  switch (intent.state) {
    case 'waiting':
    case 'sending':
    case 'working':
      return null
    case 'failed':
    case 'dead': {
      const { code, message } = intent.lastFailure ?? { code: 'internal', message: '' }
      const error = rollback === undefined ? message : `the rollback failed: ${message}`
      return { status: 'error', error, errorCode: code }
    }
    case 'applied':
      return rollback === undefined
        ? { status: 'success', error: null, errorCode: null }
        : { status: 'error', error: rollback.error, errorCode: 'rolled_back' }
    case 'cancelled':
      return { status: 'cancelled', error: null, errorCode: null }
    default:
      return unreachable(intent)
  }
}

/** Shown while the replicas of a node in a ring are moved to the version that was applied. */
export const provingMessage = ({ rollback }: Pick<Plan, 'rollback'>): string =>
  rollback === undefined ? 'installed; moving its replicas' : 'previous version restored; moving replicas back'
