// Hands what was counted to the database, ten seconds at a time, and forgets what is old.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import type { StatsStore } from '../store/stats.ts'
import { bucketMs, type StatsBook } from './stats-book.ts'

/** After a bucket ends, so that its last requests are in it. */
const lagMs = 200
const forgetEvery = 60
const keptMs = 86_400_000

export interface WriteStatsDeps {
  readonly book: StatsBook
  readonly stats: StatsStore
  readonly clock: Clock
  readonly log: Log
  /** A bucket is over, and written as far as this controller is concerned. */
  readonly onWritten: (at: string) => void
}

export function createStatsWriter({ book, stats, clock, log, onWritten }: WriteStatsDeps) {
  const trouble = createFailureStreak({ what: 'statistics can not be written', clock, log })

  async function write(options: { all: boolean }): Promise<void> {
    const buckets = book.take(options)
    try {
      await stats.add(buckets)
      trouble.recovered()
    } catch (error) {
      book.putBack(buckets)
      trouble.failed({ error })
    }
  }

  return {
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      for (let round = 0; !signal.aborted; round += 1) {
        const endsAt = (Math.floor(clock.now() / bucketMs) + 1) * bucketMs
        await clock.sleep(endsAt + lagMs - clock.now(), signal).catch(() => undefined)
        await write({ all: signal.aborted })
        if (signal.aborted) break
        onWritten(new Date(endsAt - bucketMs).toISOString())
        if (round % forgetEvery === 0) await stats.forget(keptMs).catch((error: unknown) => trouble.failed({ error }))
      }
    },
  }
}
