// Publishes this controller's routing position: the change up to which its replica table is current. A replica counts as
// admitted, and may be ended, once the position of every controller is past the replica's change.
import { createLoop, type Clock, type Log } from '@muster/host'
import type { ControllerStore } from '../store/controllers.ts'

/** Changes come in bursts; a few writes per second are enough. */
const pauseMs = 200
const idlePauseMs = 60_000

export interface PositionPublisherDeps {
  readonly controllers: Pick<ControllerStore, 'recordRoutes'>
  readonly controllerId: string
  readonly position: () => number | null
  readonly clock: Clock
  readonly log: Log
}

export function createPositionPublisher({ controllers, controllerId, position, clock, log }: PositionPublisherDeps) {
  const loop = createLoop({ what: 'cannot publish routing position; retrying', clock, log, retryMs: pauseMs })
  let published = -1
  const isBehind = (): boolean => (position() ?? -1) > published

  return {
    /** Call it when the position may have moved. */
    wake: (): void => loop.wake(),
    /** Runs until aborted. Writes nothing while the position does not move. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        if (!isBehind()) return idlePauseMs
        const seq = position() ?? -1
        // The controller's row is inserted by its first heartbeat; until then the write is repeated.
        if (await controllers.recordRoutes(controllerId, seq)) published = seq
        await clock.sleep(pauseMs, signal)
        return isBehind() ? 0 : idlePauseMs
      }, signal),
  }
}
