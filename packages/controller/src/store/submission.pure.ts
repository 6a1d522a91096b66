// What a new wish does to the row of a node and backend. Pure.
import { isOpen, type Intent, type IntentKind } from '@muster/protocol'
import type { Plan } from './plan.ts'

export type RequestedIntent = Readonly<{ kind: IntentKind; plan: Plan }>

export type SubmissionDecision =
  /** A new wish, in place of whatever was there. */
  | 'take_over'
  /** The same wish is open already: it goes on, and both show it. One that waits is tried at once, as if it were new. */
  | 'attach'

/** `isProving`: it came true, and what follows from it on the node is still waited for. */
export type ExistingIntent = Readonly<{ intent: Intent; plan: Plan; isProving: boolean }>

export function decideSubmission(requested: RequestedIntent, row: ExistingIntent | null): SubmissionDecision {
  if (row === null || !(isOpen(row.intent) || row.isProving) || row.intent.cancelRequested) return 'take_over'
  return row.intent.kind === requested.kind && isSamePlan(requested, row.plan) ? 'attach' : 'take_over'
}

function isSamePlan({ kind, plan }: RequestedIntent, other: Plan): boolean {
  if (kind === 'delete') return true
  return plan.digest === other.digest && (plan.digest !== null || plan.uri === other.uri) && plan.exact === other.exact
}
