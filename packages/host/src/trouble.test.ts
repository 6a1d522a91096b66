import { expect, it } from 'vitest'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { createTrouble } from './trouble.ts'

it('tells of a trouble when it begins, every half minute while it lasts, and when it is over', () => {
  let now = 0
  const said: string[] = []
  const note = (message: string): number => said.push(`${now} ${message}`)
  const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log }
  const clock: Clock = { now: () => now, monotonic: () => now, sleep: async () => undefined }
  const trouble = createTrouble({ what: 'no database', log, clock })

  trouble.over()
  for (now = 1_000; now <= 62_000; now += 1_000) trouble.failed({})
  trouble.over()
  trouble.over()
  now = 90_000
  trouble.failed({})
  expect(said).toEqual(['1000 no database', '31000 no database', '61000 no database', '63000 no database: over', '90000 no database'])
})
