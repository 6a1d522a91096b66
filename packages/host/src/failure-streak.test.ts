import { expect, it } from 'vitest'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { createFailureStreak } from './failure-streak.ts'

it('logs a failure when the streak begins, every 30 s while it lasts, and when it ends', () => {
  let now = 0
  const logged: string[] = []
  const record = (message: string): number => logged.push(`${now} ${message}`)
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log }
  const clock: Clock = { now: () => now, monotonic: () => now, sleep: async () => undefined }
  const streak = createFailureStreak({ what: 'no database', log, clock })

  streak.recovered()
  for (now = 1_000; now <= 62_000; now += 1_000) streak.failed({})
  streak.recovered()
  streak.recovered()
  now = 90_000
  streak.failed({})
  expect(logged).toEqual(['1000 no database', '31000 no database', '61000 no database', '63000 recovered', '90000 no database'])
})
