// Which slots of a model are to have a replica. Pure.
import type { Load, ModelName } from '@muster/protocol'
import { desiredReplicas } from '../models/desired.ts'
import type { WantedModel } from '../store/loads.ts'

/** What failed for good stays to be seen, and to be asked for again by those who mended it. */
export function isWanted(load: Load, model: WantedModel): boolean {
  if (load.purpose === 'stage') return true
  const isKept = load.state === 'failed' && load.nextAt === null && load.revision === model.revision && !model.isHeld && load.slot === 0
  return load.slot < desiredOf(model) || isKept
}

const desiredOf = (model: WantedModel): number => desiredReplicas({ ...model, scheduling: model.config.scheduling }, model.matching)

export interface Difference {
  /** Slots that have no load. */
  readonly missing: readonly Readonly<{ model: ModelName; slot: number }>[]
  /** Loads that nobody wants any more, or of another revision. */
  readonly stale: readonly Load[]
}

export function compareWanted(models: readonly WantedModel[], loads: readonly Load[]): Difference {
  const serving = Map.groupBy(
    loads.filter(({ purpose }) => purpose === 'serve'),
    ({ model }) => model,
  )
  const missing = models.flatMap((model) => {
    const slots = new Set(serving.get(model.name)?.map(({ slot }) => slot))
    const wanted = Array.from({ length: desiredOf(model) }, (_, slot) => slot)
    return wanted.filter((slot) => !slots.has(slot)).map((slot) => ({ model: model.name, slot }))
  })
  const stale = models.flatMap((model) =>
    (serving.get(model.name) ?? []).filter((load) => !isWanted(load, model) || load.revision !== model.revision),
  )
  return { missing, stale }
}
