// Decides whether a submission replaces the intent of a node, or joins it. Pure.
import { isOpen, type Intent, type IntentKind } from '@muster/protocol'
import type { Plan } from './plan.ts'

export type RequestedIntent = Readonly<{ kind: IntentKind; plan: Plan }>

export type SubmissionDecision =
  /** A new intent replaces the existing one. */
  | 'take_over'
  /** The same intent is open already: both operations show it. If it waits, it is sent at once. */
  | 'attach'

/** `isProving`: the intent is applied, and its replicas are still moved and watched. */
export type ExistingIntent = Readonly<{ intent: Intent; plan: Plan; isProving: boolean }>

export function decideSubmission(requested: RequestedIntent, row: ExistingIntent | null): SubmissionDecision {
  if (row === null || !(isOpen(row.intent) || row.isProving) || row.intent.cancelRequested) return 'take_over'
  return row.intent.kind === requested.kind && isSamePlan(requested, row.plan) ? 'attach' : 'take_over'
}

function isSamePlan({ kind, plan }: RequestedIntent, other: Plan): boolean {
  if (kind === 'delete') return true
  return plan.digest === other.digest && (plan.digest !== null || plan.uri === other.uri) && plan.exact === other.exact
}
