// What becomes of a command about a backend, given what this worker was told about it before. Pure.
// A generation is one wish of the controllers; an epoch is one lease of whoever pursues it. So the same
// generation is the same wish, sent again or tried again; a lower one is a wish that was given up.
import { unreachable, type Failure } from '@muster/protocol'

export type Wish = Readonly<{
  direction: 'present' | 'absent'
  digest: string | null
  /** Tells whether two wishes are the same where no generation does. */
  content: string
  /** Null: from somebody who knows no generations; counts as newest. */
  generation: number | null
  epoch: number | null
}>

/** `ending`: called off, and not yet at its end. */
export type Known = Wish & Readonly<{ id: number; state: 'open' | 'ending' | 'succeeded' | 'failed' | 'cancelled' }>

export type Past = Readonly<{
  /** Everything remembered of this backend, in the order in which it was accepted. */
  row: readonly Known[]
  /** Whether what the newest one achieved is still so. */
  holds: boolean
}>

export type Verdict =
  /** Carry it out, after what is under way; `cancels` are wishes that it overrules. */
  | Readonly<{ do: 'accept'; cancels: readonly number[] }>
  /** It is under way: share its end. */
  | Readonly<{ do: 'join'; id: number }>
  /** It was carried out: say how it ended. */
  | Readonly<{ do: 'answer'; id: number }>
  | Readonly<{ do: 'refuse'; failure: Failure }>

export function decide(asked: Wish, { row, holds }: Past): Verdict {
  const newest = row.at(-1)
  if (newest === undefined) return accept(asked, row)
  const highest = Math.max(...row.map(({ generation }) => generation ?? -1))
  if (asked.generation === null) {
    const isSame = newest.state === 'open' && newest.content === asked.content
    return isSame ? { do: 'join', id: newest.id } : accept(asked, row)
  }
  if (asked.generation > highest) return accept(asked, row)
  if (asked.generation < highest) return superseded(`generation ${asked.generation} was followed by ${highest}`)
  if (newest.generation !== asked.generation) return superseded(`generation ${asked.generation} was followed by one without a number`)
  return decideSame(asked, newest, { row, holds })
}

function decideSame(asked: Wish, newest: Known, { row, holds }: Past): Verdict {
  if (newest.direction !== asked.direction || newest.digest !== asked.digest) {
    const message = `generation ${asked.generation} was another command before, and a generation is one wish`
    return { do: 'refuse', failure: { code: 'conflict', retry: 'never', message } }
  }
  if (asked.epoch !== null && newest.epoch !== null && asked.epoch < newest.epoch) {
    return superseded(`epoch ${asked.epoch} of generation ${asked.generation} was followed by ${newest.epoch}`)
  }
  const isSameTry = asked.epoch !== null && asked.epoch === newest.epoch
  switch (newest.state) {
    case 'open':
      return { do: 'join', id: newest.id }
    case 'ending':
      return asked.epoch !== null && !isSameTry ? accept(asked, row) : { do: 'join', id: newest.id }
    case 'succeeded':
      return holds ? { do: 'answer', id: newest.id } : accept(asked, row)
    case 'failed':
    case 'cancelled':
      // The same try heard twice was carried out once; another try of the same wish is carried out again.
      return isSameTry ? { do: 'answer', id: newest.id } : accept(asked, row)
    default:
      return unreachable(newest.state)
  }
}

function accept(asked: Wish, row: readonly Known[]): Verdict {
  return { do: 'accept', cancels: row.filter((known) => known.state === 'open' && overrules(asked, known)).map(({ id }) => id) }
}

/** Work towards the same is left alone: what it fetches is what the newer one needs. */
function overrules(newer: Wish, older: Wish): boolean {
  if (newer.direction !== older.direction) return true
  const isNumbered = newer.generation !== null && older.generation !== null
  return isNumbered && newer.digest !== null && older.digest !== null && newer.digest !== older.digest
}

function superseded(because: string): Verdict {
  return { do: 'refuse', failure: { code: 'superseded', retry: 'never', message: `superseded: ${because}` } }
}
