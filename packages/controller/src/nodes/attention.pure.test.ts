import { describe, expect, it } from 'vitest'
import { attend, databaseTime, inattentive, mayJudge, type Attention, type Probe } from './attention.pure.ts'

const limits = { maxGapMs: 5_000, maxClockJumpMs: 2_000 }
const databaseStart = 1_000_000
const probe = (at: number, changes: Partial<Probe> = {}): Probe => ({
  at,
  busAnswered: true,
  receivedAll: true,
  databaseNowMs: databaseStart + at,
  ...changes,
})
const after = (probes: readonly Probe[]): Attention => probes.reduce((attention, next) => attend(attention, next, limits), inattentive(0))
const every = (from: number, to: number): Probe[] => Array.from({ length: (to - from) / 1_000 + 1 }, (_, i) => probe(from + i * 1_000))
const judges = (attention: Attention, now: number): boolean => mayJudge(attention, { now, nodeTimeoutMs: 15_000 })

describe('a controller judges silence', () => {
  it.each<[string, Probe[], number, boolean]>([
    ['not before it listened for one node timeout', every(0, 15_000), 15_000, false],
    ['after it listened for one node timeout', every(0, 16_000), 16_000, true],
    ['not while the bus does not answer', [...every(0, 30_000), probe(31_000, { busAnswered: false })], 31_000, false],
    ['not while the database does not answer', [...every(0, 30_000), probe(31_000, { databaseNowMs: null })], 31_000, false],
    [
      'not within one node timeout after the bus is back',
      [...every(0, 30_000), probe(31_000, { busAnswered: false }), ...every(60_000, 75_000)],
      75_000,
      false,
    ],
    [
      'again one node timeout after the bus is back',
      [...every(0, 30_000), probe(31_000, { busAnswered: false }), ...every(32_000, 48_000)],
      48_000,
      true,
    ],
    ['not when the inbox lost heartbeats', [...every(0, 30_000), probe(31_000, { receivedAll: false })], 31_000, false],
    [
      'not within one node timeout after the inbox lost heartbeats',
      [...every(0, 30_000), probe(31_000, { receivedAll: false }), ...every(32_000, 47_000)],
      47_000,
      false,
    ],
    ['not when the process itself stood still', [...every(0, 30_000), ...every(60_000, 61_000)], 61_000, false],
    [
      'not when the database clock was set forward',
      [...every(0, 30_000), probe(31_000, { databaseNowMs: databaseStart + 3_631_000 })],
      31_000,
      false,
    ],
  ])('%s', (_, probes, now, verdict) => {
    expect(judges(after(probes), now)).toBe(verdict)
  })
})

describe('the time of the database', () => {
  it.each<[string, Probe[], number | null]>([
    ['is unknown before the first read', [], null],
    ['is unknown while the database does not answer', [probe(1_000, { databaseNowMs: null })], null],
    ['runs on from the last read', [probe(1_000)], databaseStart + 90_000],
    ['runs on while the database is away', [probe(1_000), probe(2_000, { databaseNowMs: null })], databaseStart + 90_000],
    ['follows a clock that was set', [probe(1_000), probe(2_000, { databaseNowMs: 5_002_000 })], 5_090_000],
  ])('%s', (_, probes, expected) => expect(databaseTime(after(probes), 90_000)).toBe(expected))
})
