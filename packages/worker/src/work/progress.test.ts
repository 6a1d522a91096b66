import { describe, expect, it } from 'vitest'
import { createManualClock } from '../../test/manual-clock.ts'
import { createProgressReporter, type ProgressState } from './reports.ts'

function world() {
  const clock = createManualClock()
  const told: (ProgressState & { at: number })[] = []
  let seq = 0
  const publish = (state: ProgressState): void => void told.push({ at: clock.monotonic(), ...state })
  const reporter = createProgressReporter({ clock, nextSeq: () => ++seq, publish })
  return { clock, told, reporter, at: () => told.map(({ at }) => at), percentages: () => told.map(({ percentage }) => percentage) }
}
const bytes = (current: number, total = 1000) => ({ phase: 'downloading' as const, current, total })

describe('progress', () => {
  it('S2.20 the first state is published at once, then at most one per 250 ms, always the newest', async () => {
    const { clock, reporter, at, percentages } = world()
    reporter.report(bytes(0))
    await clock.advance(0)
    expect(at()).toEqual([0])
    for (let ms = 10; ms <= 1000; ms += 10) {
      await clock.advance(10)
      reporter.report(bytes(ms))
    }
    expect(at()).toEqual([0, 250, 500, 750, 1000])
    expect(percentages()).toEqual([0, 24, 49, 74, 99])
  })

  it('B4 ten thousand reports a second become at most four', async () => {
    const { clock, reporter, told } = world()
    for (let second = 0; second < 3; second += 1) {
      for (let ms = 0; ms < 1000; ms += 50) {
        for (let n = 0; n < 500; n += 1) reporter.report(bytes(second * 300 + ms / 10))
        await clock.advance(50)
      }
    }
    expect(told.length).toBeLessThanOrEqual(13)
    expect(told.length).toBeGreaterThanOrEqual(11)
  })

  it.each(['failed', 'cancelled', 'succeeded'] as const)('S2.20 the last state is always published, also when it %s', async (how) => {
    const { clock, reporter, told } = world()
    reporter.report(bytes(0))
    await clock.advance(10)
    reporter.report(bytes(420))
    reporter.end(how)
    expect(told.at(-1)).toMatchObject(how === 'succeeded' ? { current: 1000, percentage: 100 } : { current: 420, percentage: 42 })
    reporter.report(bytes(999))
    reporter.end(how)
    await clock.advance(5000)
    expect(told).toHaveLength(2)
  })

  it('work that is left to the next start has no last state', async () => {
    const { clock, reporter, told } = world()
    reporter.report(bytes(10))
    await clock.advance(0)
    reporter.end('left')
    await clock.advance(1000)
    expect(told).toHaveLength(1)
  })

  it('publishes nothing when nothing moves', async () => {
    const { clock, reporter, told } = world()
    reporter.report({ ...bytes(400), phase: 'extracting' })
    await clock.advance(60_000)
    expect(told).toHaveLength(1)
    expect(reporter.now().percentage).toBe(40)
  })

  it('says once that the source has sent nothing for five seconds, and no more when bytes arrive', async () => {
    const { clock, reporter, told } = world()
    reporter.report({ ...bytes(100), server: 'ghcr.io' })
    await clock.advance(4_000)
    reporter.report({ ...bytes(400), server: 'ghcr.io' })
    await clock.advance(4_000)
    expect(told.map(({ wait }) => wait)).toEqual([null, null])
    await clock.advance(60_000)
    // A download that restarts and receives no byte is still silent.
    reporter.report({ ...bytes(400), server: 'ghcr.io' })
    await clock.advance(60_000)
    expect(told.map(({ at, wait }) => [at, wait])).toEqual([
      [0, null],
      [4_000, null],
      [9_000, { silent_ms: 5_000, server: 'ghcr.io', reason: '' }],
    ])
    reporter.report(bytes(500))
    await clock.advance(250)
    expect(told.at(-1)).toMatchObject({ current: 500, wait: null })
  })

  it('says why the source asks for a pause, and gives signs of life until the pause ends', async () => {
    const { clock, reporter, told } = world()
    reporter.report({ ...bytes(100), server: 'ghcr.io' })
    await clock.advance(2_000)
    reporter.wait('ghcr.io limits requests (429)', 60_000)
    for (let second = 0; second < 90; second += 1) await clock.advance(1_000)
    const wait = { server: 'ghcr.io', reason: 'ghcr.io limits requests (429)' }
    expect(told.slice(1).map((each) => [each.at, each.wait])).toEqual(
      Array.from({ length: 12 }, (_, n) => [2_000 + n * 5_000, { ...wait, silent_ms: 2_000 + n * 5_000 }]),
    )
    expect(reporter.now().wait).toMatchObject(wait)
    reporter.report(bytes(200))
    expect(reporter.now().wait).toBeNull()
  })

  it('S2.47 signs of life without bytes are published, repeated figures are not', async () => {
    const { clock, reporter, told } = world()
    reporter.report(bytes(400))
    const before = reporter.now().seq
    for (let n = 0; n < 8; n += 1) {
      reporter.report(bytes(400))
      await clock.advance(500)
    }
    expect([told.length, reporter.now().seq]).toEqual([1, before])
    for (let n = 0; n < 8; n += 1) {
      reporter.sign()
      await clock.advance(500)
    }
    expect(told.map(({ current }) => current)).toEqual(Array.from({ length: 9 }, () => 400))
    expect(told.map(({ seq }) => seq)).toEqual(told.map(({ seq }) => seq).toSorted((a, b) => a - b))
    expect(reporter.now().seq).toBe(before + 8)
  })

  it('the percentage never shrinks, byte counts may', async () => {
    const { clock, reporter, told } = world()
    for (const current of [500, 200, 600]) {
      reporter.report(bytes(current))
      await clock.advance(300)
    }
    reporter.report({ phase: 'extracting' })
    await clock.advance(300)
    expect(told.map(({ current, percentage }) => [current, percentage])).toEqual([
      [500, 50],
      [200, 50],
      [600, 60],
      [600, 60],
    ])
  })

  it('S2.21 a report never waits for the publication, which has a turn of its own', async () => {
    const { clock, reporter, told } = world()
    reporter.report(bytes(1))
    expect(told).toEqual([])
    await clock.advance(0)
    expect(told).toHaveLength(1)
  })

  it('invalid figures of an installer are not published', async () => {
    const { clock, reporter, told } = world()
    for (const current of [Number.NaN, -5, Infinity, 10.7]) {
      reporter.report(bytes(current))
      await clock.advance(300)
    }
    expect(told.map(({ current }) => current)).toEqual([0, 10])
    expect(told.every(({ percentage }) => percentage >= 0 && percentage <= 100)).toBe(true)
  })
})
