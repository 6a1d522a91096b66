import { expect, it } from 'vitest'
import { hourOf } from './node-hour.pure.ts'

const sample = (at: string, free: number | null) => ({ at, available_ram: free, available_vram: null, available_disk: 30, in_flight: 2 })
const totals = { total_ram: 100, total_vram: null, total_disk: 20 }
const at = '2026-01-01T12:00:00.000Z'

it('covers the whole hour, with gaps where there are no samples', () => {
  const now = Date.parse(at) + 40_000
  const hour = hourOf({ interval_seconds: 15, samples: [sample(at, 60)] }, totals, now)
  expect(hour.times).toHaveLength(240)
  expect(hour.times.at(-1)).toBe(Date.parse(at) / 1000 + 30)
  expect(hour.ram.slice(-4)).toEqual([null, 40, null, null])
  expect(hour.inFlight.filter((value) => value !== null)).toEqual([2])
})
it('has gaps for unknown values, and none below zero', () => {
  const hour = hourOf({ interval_seconds: 15, samples: [sample(at, null)] }, totals, Date.parse(at))
  expect([hour.ram.at(-1), hour.vram.at(-1), hour.disk.at(-1)]).toEqual([null, null, 0])
})
it('shows samples of a clock that is ahead', () => {
  const hour = hourOf({ interval_seconds: 15, samples: [sample(at, 60)] }, totals, Date.parse(at) - 60_000)
  expect(hour.ram.at(-1)).toBe(40)
})
