// The outcome of a request, as metrics and statistics count it.
import { unreachable } from '@muster/protocol'
import type { DispatchEnd } from '../routing/dispatch.ts'
import type { ColdRefusal } from './cold-models.ts'

/** `client_error`: the client's request is wrong, or the client left. `overloaded`: the same request may succeed later. */
export type Outcome = 'ok' | 'client_error' | 'overloaded' | 'error'

/** `reason`: empty, the status of the backend, or the name of the end. */
export type NamedOutcome = Readonly<{ outcome: Outcome; reason: string }>

export function outcomeOf(end: DispatchEnd<ColdRefusal>): NamedOutcome {
  switch (end.kind) {
    case 'answered':
      return end.hasErrorEvent ? { outcome: 'error', reason: 'error_event' } : outcomeOfStatus(end.status)
    case 'cut':
    case 'unanswered':
      return { outcome: 'error', reason: end.kind }
    case 'gone':
      return { outcome: 'client_error', reason: 'client_gone' }
    case 'none':
      return { outcome: outcomeOfRefusal(end.refusal.kind), reason: end.refusal.kind }
    default:
      return unreachable(end)
  }
}

function outcomeOfStatus(status: number): NamedOutcome {
  if (status < 400) return { outcome: 'ok', reason: '' }
  const outcome = status === 429 || status === 503 ? 'overloaded' : status < 500 ? 'client_error' : 'error'
  return { outcome, reason: String(status) }
}

function outcomeOfRefusal(kind: ColdRefusal['kind']): Outcome {
  switch (kind) {
    case 'model_not_found':
      return 'client_error'
    case 'loading':
    case 'no_capacity':
      return 'overloaded'
    case 'failed':
    case 'unreachable':
    case 'unknown':
      return 'error'
    default:
      return unreachable(kind)
  }
}
