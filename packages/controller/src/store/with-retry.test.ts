import type { Clock } from '@muster/host'
import { expect, it } from 'vitest'
import { withRetry } from './with-retry.ts'

const conflict = (code = '40001'): Error => Object.assign(new Error(code), { code })

function deps() {
  const slept: number[] = []
  let conflicts = 0
  const clock: Clock = { now: () => 0, monotonic: () => 0, sleep: async (ms) => void slept.push(ms) }
  return { slept, conflicts: () => conflicts, clock, random: () => 0.5, onConflict: () => void (conflicts += 1) }
}

it.each(['40001', '40P01'])('A24 tries again after %s, a little later each time', async (code) => {
  const d = deps()
  let runs = 0
  const result = await withRetry(async () => {
    runs += 1
    if (runs < 3) throw conflict(code)
    return runs
  }, d)
  expect(result).toBe(3)
  expect(d.slept).toEqual([20, 40])
  expect(d.conflicts()).toBe(2)
})

it('A24 gives up after three attempts', async () => {
  const d = deps()
  let runs = 0
  const work = async (): Promise<never> => {
    runs += 1
    throw conflict()
  }
  await expect(withRetry(work, d)).rejects.toThrow('40001')
  expect(runs).toBe(3)
  expect(d.slept).toHaveLength(2)
})

it('does not try again what may have been committed', async () => {
  let runs = 0
  const work = async (): Promise<never> => {
    runs += 1
    throw conflict('57P01')
  }
  await expect(withRetry(work, deps())).rejects.toThrow('57P01')
  expect(runs).toBe(1)
})
