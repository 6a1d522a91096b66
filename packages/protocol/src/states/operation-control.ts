// Commands of an administrator to an existing operation that change no intent: pause, resume, dismiss. One table for controllers,
// the command line and the web page.
import type { OperationKind } from '../http/operations.ts'

export type OperationControl = 'pause' | 'resume' | 'dismiss'

export interface ControlFacts {
  readonly kind: OperationKind
  readonly isFinished: boolean
  /** Everything that is left of it is being cancelled. */
  readonly isCancelling: boolean
  readonly isPaused: boolean
  readonly isDismissed: boolean
}

/** `done`: the operation is as requested already. The others are refusals. */
export type ControlVerdict = 'do' | 'done' | 'already_finished' | 'not_finished' | 'cancelling' | 'cannot_pause'

/**
 * Loads follow the demand for their model, and unloads and deletions of a model change it at once: a pause would hold back
 * nothing that the administrator does not control otherwise.
 */
export const canBePaused = (kind: OperationKind): boolean => kind.startsWith('backend.') || kind === 'model.install'

export function decideControl(control: OperationControl, facts: ControlFacts): ControlVerdict {
  if (control === 'dismiss') return facts.isDismissed ? 'done' : facts.isFinished ? 'do' : 'not_finished'
  if (facts.isFinished) return 'already_finished'
  if (control === 'resume') return facts.isPaused ? 'do' : 'done'
  if (!canBePaused(facts.kind)) return 'cannot_pause'
  if (facts.isCancelling) return 'cancelling'
  return facts.isPaused ? 'done' : 'do'
}
