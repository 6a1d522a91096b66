// Scales models once a second: one replica more when all are busy, one less when fewer suffice. Every controller receives all
// heartbeats and may decide; of concurrent decisions one is written.
import { type Clock, createLoop, type Log } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'
import type { ScaleChange, ScalingStore } from '../store/scaling.ts'
import { decideScaling } from './scaling.pure.ts'

export interface ScaleLoopDeps {
  readonly scaling: Pick<ScalingStore, 'list' | 'write'>
  /** As the replica's worker last reported. */
  readonly inFlight: (id: ReplicaId) => number
  /** False until heartbeats arrived for long enough: without them every replica looks idle. */
  readonly isInformed: () => boolean
  /** Read in each round. */
  readonly idleMs: number
  readonly clock: Clock
  readonly log: Log
}

const everyMs = 1_000

export function createScaleLoop(deps: ScaleLoopDeps) {
  const { scaling, inFlight, isInformed, clock, log } = deps
  const round = async (): Promise<number> => {
    if (!isInformed()) return everyMs
    const { now, models } = await scaling.list()
    const changes = models.flatMap((model): ScaleChange[] => {
      const to = decideScaling({ model, inFlight: model.ready.map(inFlight), now, idleMs: deps.idleMs })
      return to === null ? [] : [{ from: model, to }]
    })
    const stepped = new Set(await scaling.write(changes))
    for (const { from, to } of changes)
      if (stepped.has(from.name)) log.info('model scaled', { model: from.name, from: from.requestedReplicas, to: to.requestedReplicas })
    return everyMs
  }
  const loop = createLoop({ what: 'cannot scale models; retrying', clock, log })
  return {
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> => loop.run(round, signal),
  }
}
