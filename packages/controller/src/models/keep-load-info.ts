// Keeps what models were loaded with up to what is so. It remembers nothing: that a replica came up only wakes it. Serving
// waits for none of it: what can't be saved now is saved later, and said once.
import { createFailureStreak, createWakeTimer, type Clock, type Log } from '@muster/host'
import type { LoadInfoStore } from '../store/load-info.ts'

export interface KeepLoadInfoDeps {
  readonly loadInfo: Pick<LoadInfoStore, 'saveNew'>
  readonly clock: Clock
  readonly log: Log
}

const againInMs = 1_000
/** The safety poll: another controller may have been killed between a load's last step and this. */
const idleMs = 10_000
/** So that many that come up at once are one statement. */
const breathMs = 100

export function createKeepLoadInfo({ loadInfo, clock, log }: KeepLoadInfoDeps) {
  const wakeable = createWakeTimer(clock)
  const trouble = createFailureStreak({ what: 'what models were loaded with can not be saved; they serve all the same', clock, log })
  return {
    wake: (): void => wakeable.wake(),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        const isSaved = await loadInfo.saveNew().then(
          () => true,
          (error: unknown) => {
            trouble.failed({ error })
            return false
          },
        )
        if (isSaved) trouble.recovered()
        await (isSaved ? wakeable.pause(idleMs, signal).catch(() => false) : clock.sleep(againInMs, signal).catch(() => undefined))
        await clock.sleep(breathMs, signal).catch(() => undefined)
      }
    },
  }
}
