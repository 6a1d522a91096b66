// Once a second: models whose replicas are all busy get one more, models that could do with one less lose one. Every
// controller hears all heartbeats and may decide; of several that do at once, one writes.
import { type Clock, createLoop, type Log } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'
import type { Scaled, ScalingStore } from '../store/scaling.ts'
import { decideScaling } from './decide.ts'

export interface ScaleLoopDeps {
  readonly scaling: Pick<ScalingStore, 'list' | 'write'>
  /** As its worker said it last. */
  readonly inFlight: (id: ReplicaId) => number
  /** Heartbeats have come for long enough to know how busy everybody is. A controller that heard nothing takes all for idle. */
  readonly isInformed: () => boolean
  readonly idleMs: number
  readonly clock: Clock
  readonly log: Log
}

const everyMs = 1_000

export function createScaleLoop({ scaling, inFlight, isInformed, idleMs, clock, log }: ScaleLoopDeps) {
  const round = async (): Promise<number> => {
    if (!isInformed()) return everyMs
    const { now, models } = await scaling.list()
    const changes = models.flatMap((model): Scaled[] => {
      const to = decideScaling({ model, inFlight: model.ready.map(inFlight), now, idleMs })
      return to === null ? [] : [{ from: model, to }]
    })
    const stepped = new Set(await scaling.write(changes))
    for (const { from, to } of changes)
      if (stepped.has(from.name))
        log.info('a model is scaled', { model: from.name, from: from.requestedReplicas, to: to.requestedReplicas })
    return everyMs
  }
  const rounds = createLoop({ what: 'models can not be scaled', clock, log })
  return {
    /** Until aborted. */
    run: (signal: AbortSignal): Promise<void> => rounds.run(round, signal),
  }
}
