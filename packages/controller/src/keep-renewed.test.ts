import { silentLog, systemClock, type Clock } from '@muster/host'
import { expect, it } from 'vitest'
import { keepRenewed } from './connect-bus.ts'

it('renews periodically; a failure is logged, keeps the old value, and is retried soon', async () => {
  const stop = new AbortController()
  const slept: number[] = []
  const warned: string[] = []
  const outcomes = ['first', new Error('no entropy'), 'second']
  const clock: Clock = {
    ...systemClock,
    sleep: async (ms, signal) => {
      if (outcomes.length === 0) stop.abort(new Error('done'))
      signal?.throwIfAborted()
      slept.push(ms)
    },
  }
  const newest = await keepRenewed({
    make: async () => {
      const next = outcomes.shift()
      if (next instanceof Error) throw next
      return next
    },
    everyMs: 1_000,
    retryMs: 10,
    what: 'the token',
    clock,
    log: { ...silentLog, warn: (message) => void warned.push(message) },
    signal: stop.signal,
  })
  expect(newest()).toBe('first')
  await expect.poll(() => stop.signal.aborted).toBe(true)
  expect(newest()).toBe('second')
  expect(slept).toEqual([1_000, 10])
  expect(warned).toEqual(['cannot renew the token; retrying'])
})
