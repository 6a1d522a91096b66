import { systemClock } from '@muster/host'
import { expect, it } from 'vitest'
import { createSharedRun } from './shared-run.ts'

/** Runs are ended by hand, in their order. */
function byHand() {
  const ends: ((value: number | Error) => void)[] = []
  const run = createSharedRun(() => {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    ends.push((value) => (value instanceof Error ? reject(value) : resolve(value)))
    return promise
  }, systemClock)
  return { run, ends }
}
const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))

it('a call during a run shares the next run, which starts after it', async () => {
  const { run, ends } = byHand()
  const first = run()
  await settled()
  const others = [run(), run(), run()]
  await settled()
  expect(ends).toHaveLength(1)
  ends[0]?.(1)
  expect(await first).toBe(1)
  await settled()
  expect(ends).toHaveLength(2)
  ends[1]?.(2)
  expect(await Promise.all(others)).toEqual([2, 2, 2])
})

it('a call that accepts an older result shares the current or last run', async () => {
  const { run, ends } = byHand()
  const first = run()
  await settled()
  const second = run({ maxAgeMs: 60_000 })
  ends[0]?.(1)
  expect(await Promise.all([first, second, run({ maxAgeMs: 60_000 })])).toEqual([1, 1, 1])
  expect(ends).toHaveLength(1)
})

it('a failure rejects all callers that shared the run, and is not cached', async () => {
  const { run, ends } = byHand()
  const first = run()
  await settled()
  ends[0]?.(new Error('no'))
  await expect(first).rejects.toThrow('no')
  const again = run({ maxAgeMs: 60_000 })
  await settled()
  ends[1]?.(2)
  expect(await again).toBe(2)
})
