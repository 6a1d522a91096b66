// Tells all others up to which change this controller routes by what is so: its row says it. A replica counts as admitted,
// and may be ended, when every controller is past its change. At most a few times a second, and never while nothing changes.
import { createFailureStreak, createWakeTimer, type Clock, type Log } from '@muster/host'
import type { ControllerStore } from '../store/controllers.ts'

/** Changes come in bursts; whoever waits for this waits for a replica, which takes longer. */
const pauseMs = 200
const longPauseMs = 60_000

export interface TellerDeps {
  readonly controllers: Pick<ControllerStore, 'recordRoutes'>
  readonly controllerId: string
  readonly holdsTo: () => number | null
  readonly clock: Clock
  readonly log: Log
}

export function createTeller({ controllers, controllerId, holdsTo, clock, log }: TellerDeps) {
  const wakeable = createWakeTimer(clock)
  const trouble = createFailureStreak({ what: 'how far this controller routes by what is so can not be told', clock, log })
  let told = -1
  const hasNews = (): boolean => (holdsTo() ?? -1) > told

  /** The row comes with the first heartbeat: until then it is tried again. */
  async function tell(): Promise<void> {
    const seq = holdsTo() ?? -1
    try {
      if (await controllers.recordRoutes(controllerId, seq)) told = seq
      trouble.recovered()
    } catch (error) {
      trouble.failed({ error })
    }
  }

  return {
    /** There may be something to tell. */
    wake: (): void => wakeable.wake(),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        if (hasNews()) {
          await tell()
          await clock.sleep(pauseMs, signal).catch(() => undefined)
        }
        await wakeable.pause(hasNews() ? 0 : longPauseMs, signal).catch(() => false)
      }
    },
  }
}
