// Moves a load by what happened to it. One that was moved meanwhile by somebody else is read again, and the event is judged
// anew.
import type { Log } from '@muster/host'
import { stepLoad, type Load, type LoadEvent } from '@muster/protocol'
import type { LoadRecord } from '../store/load-rows.ts'
import type { Read } from '../store/intents.ts'
import type { LoadStore } from '../store/loads.ts'
import { replicasOf, type StepDetail } from './loads.pure.ts'

export interface AdvanceDeps {
  readonly loads: LoadStore
  /** Told of every step that was written here. */
  readonly onStep: (taken: Taken) => void
  readonly random: () => number
  readonly log: Log
}
export type Taken = Readonly<{ from: LoadRecord; to: Load | 'gone'; event: LoadEvent }>

export interface Happened {
  /** The row as it is now; the first time as it was read already, if it was. */
  readonly read: () => Promise<Read<LoadRecord>>
  /** Null: it means nothing for the row as it is. */
  readonly eventOf: (load: Load) => LoadEvent | null
  readonly detail?: StepDetail
  /** It was decided with all loads of its model, as they were read: if any was moved since, nothing is. */
  readonly among?: readonly LoadRecord[]
}
/** What the row is now; null when the event meant nothing (any more). `crowded`: its node is not as it was when it was chosen. */
export type Advance = (happened: Happened) => Promise<LoadRecord | 'gone' | 'crowded' | null>

/** A round is lost only to somebody who moved the row on. */
const maxRounds = 20

export function createAdvance({ loads, onStep, random, log }: AdvanceDeps): Advance {
  return async ({ read, eventOf, detail = {}, among }) => {
    for (let round = 0; round < maxRounds; round += 1) {
      const { rows, now } = await read()
      const [from] = rows
      const event = from === undefined ? null : eventOf(from.load)
      if (from === undefined || event === null) return null
      const to = stepLoad(from.load, event, { now, chance: random() })
      if (to === null) return null
      const replicas = replicasOf(from.load, event, detail)
      const written = await loads.apply({ from, to, replicas, ...(among === undefined ? {} : { among }) })
      if (written === 'crowded') return written
      if (written === 'moved') {
        // The replica may be gone as well, or another load is not as it was; whoever decided looks again.
        if (event.type === 'returned' || among !== undefined) return null
        continue
      }
      tell({ from, to, event }, log)
      onStep({ from, to, event })
      return to === 'gone' ? to : { ...from, load: to, version: from.version + 1 }
    }
    return null
  }
}

function tell({ from, to, event }: Taken, log: Log): void {
  const { model, ordinal, purpose } = from.load
  const about = { model, ordinal, purpose, was: from.load.state, by: event.type }
  if (to === 'gone') return log.info('a load is not wanted any more', about)
  const where = 'nodeId' in to ? { node: to.nodeId } : {}
  const which = 'replicaId' in to ? { replica: to.replicaId } : {}
  if (to.state === 'failed' && from.load.state !== 'failed')
    return log.warn('a model could not be loaded', { ...about, ...where, error: to.failure.message, code: to.failure.code })
  if (to.state !== from.load.state) log.info('a load moved on', { ...about, state: to.state, ...where, ...which })
}
