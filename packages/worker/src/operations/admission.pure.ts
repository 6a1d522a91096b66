// Decides on a command about a backend, given the commands that this worker accepted before. Pure.
// A generation is one intent of the controllers; an epoch is one attempt at it. A command with the same generation is the
// same intent, sent or tried again; a lower generation is an intent that was replaced.
import { unreachable, type Failure } from '@muster/protocol'

export type BackendIntent = Readonly<{
  direction: 'present' | 'absent'
  digest: string | null
  /** Tells two intents apart that have no generation. */
  content: string
  /** Null: the sender knows no generations; the intent counts as newest. */
  generation: number | null
  epoch: number | null
}>

/** `ending`: cancelled, and not yet ended. */
export type AcceptedIntent = BackendIntent & Readonly<{ id: number; state: 'open' | 'ending' | 'succeeded' | 'failed' | 'cancelled' }>

export type BackendHistory = Readonly<{
  /** Every stored intent of this backend, in the order of acceptance. */
  accepted: readonly AcceptedIntent[]
  /** True while the result of the newest one is still in place. */
  holds: boolean
}>

export type Verdict =
  /** Run it after the work in progress; `cancels` are the intents that it replaces. */
  | Readonly<{ do: 'accept'; cancels: readonly number[] }>
  /** The same work is in progress: share its outcome. */
  | Readonly<{ do: 'join'; id: number }>
  /** The same work has ended: report its result. */
  | Readonly<{ do: 'answer'; id: number }>
  | Readonly<{ do: 'refuse'; failure: Failure }>

export function decide(intent: BackendIntent, { accepted, holds }: BackendHistory): Verdict {
  const newest = accepted.at(-1)
  if (newest === undefined) return accept(intent, accepted)
  const highest = Math.max(...accepted.map(({ generation }) => generation ?? -1))
  if (intent.generation === null) {
    const isSame = newest.state === 'open' && newest.content === intent.content
    return isSame ? { do: 'join', id: newest.id } : accept(intent, accepted)
  }
  if (intent.generation > highest) return accept(intent, accepted)
  if (intent.generation < highest) return superseded(`generation ${intent.generation} was followed by ${highest}`)
  if (newest.generation !== intent.generation) return superseded(`generation ${intent.generation} was followed by one without a number`)
  return decideSame(intent, newest, { accepted, holds })
}

function decideSame(intent: BackendIntent, newest: AcceptedIntent, { accepted, holds }: BackendHistory): Verdict {
  // An operation without a digest gets that of the first node that reports one: such a command is the same intent.
  const isSameContent = newest.digest === intent.digest || newest.digest === null
  if (newest.direction !== intent.direction || !isSameContent) {
    const message = `generation ${intent.generation} was a different command before; a generation stands for one intent`
    return { do: 'refuse', failure: { code: 'conflict', retry: 'never', message } }
  }
  if (intent.epoch !== null && newest.epoch !== null && intent.epoch < newest.epoch) {
    return superseded(`epoch ${intent.epoch} of generation ${intent.generation} was followed by ${newest.epoch}`)
  }
  const isSameAttempt = intent.epoch !== null && intent.epoch === newest.epoch
  switch (newest.state) {
    case 'open':
      return { do: 'join', id: newest.id }
    case 'ending':
      return intent.epoch !== null && !isSameAttempt ? accept(intent, accepted) : { do: 'join', id: newest.id }
    case 'succeeded':
      return holds ? { do: 'answer', id: newest.id } : accept(intent, accepted)
    case 'failed':
    case 'cancelled':
      // The same attempt received twice ran once; another attempt at the same intent runs again.
      return isSameAttempt ? { do: 'answer', id: newest.id } : accept(intent, accepted)
    default:
      return unreachable(newest.state)
  }
}

function accept(intent: BackendIntent, accepted: readonly AcceptedIntent[]): Verdict {
  return { do: 'accept', cancels: accepted.filter((each) => each.state === 'open' && replaces(intent, each)).map(({ id }) => id) }
}

/** Work towards the same result continues: the newer intent needs the content that it fetches. */
function replaces(newer: BackendIntent, older: BackendIntent): boolean {
  if (newer.direction !== older.direction) return true
  const isNumbered = newer.generation !== null && older.generation !== null
  return isNumbered && newer.digest !== null && older.digest !== null && newer.digest !== older.digest
}

function superseded(because: string): Verdict {
  return { do: 'refuse', failure: { code: 'superseded', retry: 'never', message: `superseded: ${because}` } }
}
