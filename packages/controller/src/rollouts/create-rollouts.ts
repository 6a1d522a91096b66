// Advances rollouts. Any controller may run it: a round reads, decides and writes in one transaction, so it needs no memory and
// no lease, and a controller that dies delays nothing. Changes only wake it.
import { type Clock, createLoop, type Log } from '@muster/host'
import type { OperationId } from '@muster/protocol'
import type { RolloutAction, RolloutEnd, RolloutRecord, RolloutStore } from '../store/rollouts.ts'
import { decideRollout, factsOf, isUnderWay } from './rollout.pure.ts'

export interface RolloutsDeps {
  readonly store: Pick<RolloutStore, 'open' | 'advance'>
  /** Called when intents can be sent. */
  readonly wakeOperations: () => void
  readonly onEnded: (end: RolloutEnd) => void
  readonly clock: Clock
  readonly log: Log
}

/** Poll interval while the healthy time of a ring runs. */
const watchEveryMs = 1_000
/** Poll interval while no present node is waited for. Changes wake the loop; this covers a lost wake. */
const restMs = 10_000
/** Minimum time between rounds, however often the loop is woken. */
const lookEveryMs = 100

export function createRollouts(deps: RolloutsDeps) {
  const { store, clock, log } = deps
  const rounds = createLoop({ what: 'cannot advance rollouts; retrying', clock, log })
  let lookedAt = -Infinity

  const look = async (id: OperationId): Promise<number> => {
    const looked = await store.advance(id, (rollout) => decideRollout(factsOf(rollout)))
    if (looked === null) return Infinity
    for (const action of looked.actions) report(id, looked.rollout, action, deps)
    if (looked.actions.length === 0) return isUnderWay(factsOf(looked.rollout)) ? watchEveryMs : restMs
    deps.wakeOperations()
    return lookEveryMs
  }
  return {
    wake: (): void => rounds.wake(),
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> =>
      rounds.run(async () => {
        const restedMs = clock.monotonic() - lookedAt
        if (restedMs < lookEveryMs) return lookEveryMs - restedMs
        lookedAt = clock.monotonic()
        let nextMs = restMs
        for (const id of await store.open()) nextMs = Math.min(nextMs, await look(id))
        return nextMs
      }, signal),
  }
}

function report(id: OperationId, { backend, nodes }: RolloutRecord, action: RolloutAction, { log, onEnded }: RolloutsDeps): void {
  const about = { op: id, backend }
  if (action.do === 'end') {
    log.info('rollout ended', { ...about, end: action.end })
    onEnded(action.end)
  } else if (action.do === 'stop') log.warn('rollout failed; rolling back', { ...about, error: action.failure.message })
  else if (action.do === 'enter') log.info('rollout entered the next ring', { ...about, ring: action.ring })
  else if ('nodeId' in action && action.do !== 'message') {
    const node = nodes.find(({ nodeId }) => nodeId === action.nodeId)?.name ?? action.nodeId
    log.info('rollout step applied to a node', { ...about, node, what: action.do })
  }
}
