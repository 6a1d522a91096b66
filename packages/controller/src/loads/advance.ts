// Applies an event to a load. A load that was changed meanwhile is read again, and the event is decided again.
import type { Log } from '@muster/host'
import { stepLoad, type Load, type LoadEvent } from '@muster/protocol'
import type { LoadRecord } from '../store/load-rows.ts'
import type { Read } from '../store/intents.ts'
import type { LoadStore } from '../store/loads.ts'
import { replicasOf, type StepDetail } from './loads.pure.ts'

export interface AdvanceDeps {
  readonly loads: LoadStore
  /** Called with every transition that was written here. */
  readonly onStep: (transition: LoadTransition) => void
  readonly random: () => number
  readonly log: Log
}
export type LoadTransition = Readonly<{ from: LoadRecord; to: Load | 'gone'; event: LoadEvent }>

export interface LoadMove {
  /** Reads the load; the first time it may return one that was read before. */
  readonly read: () => Promise<Read<LoadRecord>>
  /** Null: the event does not apply to this load. */
  readonly eventOf: (load: Load) => LoadEvent | null
  readonly detail?: StepDetail
  /** The loads of the model that the decision was based on: if any has changed since, nothing is written. */
  readonly among?: readonly LoadRecord[]
}
/** The written load; null when the event does not apply any more. `crowded`: replicas were added to the node since it was chosen. */
export type Advance = (move: LoadMove) => Promise<LoadRecord | 'gone' | 'crowded' | null>

/** A round is lost only when another writer has changed the load. */
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
        // The replica or another load of the model has changed; the caller decides again.
        if (event.type === 'returned' || among !== undefined) return null
        continue
      }
      logTransition({ from, to, event }, log)
      onStep({ from, to, event })
      return to === 'gone' ? to : { ...from, load: to, version: from.version + 1 }
    }
    return null
  }
}

function logTransition({ from, to, event }: LoadTransition, log: Log): void {
  const { model, ordinal, purpose } = from.load
  const about = { model, ordinal, purpose, was: from.load.state, by: event.type }
  if (to === 'gone') return log.info('load removed', about)
  const where = 'nodeId' in to ? { node: to.nodeId } : {}
  const which = 'replicaId' in to ? { replica: to.replicaId } : {}
  if (to.state === 'failed' && from.load.state !== 'failed')
    return log.warn('load failed', { ...about, ...where, error: to.failure.message, code: to.failure.code })
  if (to.state !== from.load.state) log.info('load changed state', { ...about, state: to.state, ...where, ...which })
}
