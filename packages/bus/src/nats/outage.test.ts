import type { Clock } from '@muster/host'
import { describe, expect, it } from 'vitest'
import { recordingLog } from '../../test/contract-suite.ts'
import { createOutage } from './outage.ts'

function outageAt(): { outage: ReturnType<typeof createOutage>; at: (ms: number) => void; said: () => unknown[] } {
  let now = 0
  const log = recordingLog()
  const clock: Clock = { now: () => 0, monotonic: () => now, sleep: () => Promise.resolve() }
  const said = (): unknown[] => log.lines.splice(0).map(({ level, fields }) => [level, fields['reason'] ?? null, fields['down_ms'] ?? null])
  return { outage: createOutage({ log, clock }), at: (ms) => void (now = ms), said }
}

describe('createOutage', () => {
  it('logs the reason at once, repeats it every half minute, and logs a new reason', () => {
    const { outage, at, said } = outageAt()
    outage.failed('connection refused')
    expect(said()).toEqual([['warn', 'connection refused', 0]])
    for (let ms = 250; ms < 30_000; ms += 250) {
      at(ms)
      outage.failed('connection refused')
    }
    expect(said()).toEqual([])
    at(30_000)
    outage.failed('connection refused')
    expect(said()).toEqual([['warn', 'connection refused', 30_000]])
    outage.failed('no route')
    expect(said()).toEqual([['warn', 'no route', 30_000]])
    at(31_000)
    outage.over({})
    expect(said()).toEqual([['info', null, 31_000]])
    outage.failed('connection refused')
    expect(said()).toEqual([['warn', 'connection refused', 0]])
  })

  it('a lost connection is logged once, then every half minute while the library retries silently', () => {
    const { outage, at, said } = outageAt()
    outage.begin({})
    expect(said()).toEqual([['warn', null, null]])
    at(29_000)
    outage.failed()
    expect(said()).toEqual([])
    at(30_000)
    outage.failed()
    expect(said()).toEqual([['warn', '', 30_000]])
  })

  it('C13 waits with jitter, and longer after a refusal', () => {
    const { outage, said } = outageAt()
    const delays = (): number[] => Array.from({ length: 200 }, () => outage.nextDelayMs())
    const quick = delays()
    expect(Math.min(...quick)).toBeGreaterThanOrEqual(250)
    expect(Math.max(...quick)).toBeLessThan(500)
    expect(new Set(quick).size).toBeGreaterThan(100)
    outage.refused('Authorization Violation')
    expect(said()).toEqual([['error', 'Authorization Violation', 0]])
    expect(Math.min(...delays())).toBeGreaterThanOrEqual(2000)
    outage.failed('connection refused')
    expect(Math.max(...delays())).toBeLessThan(500)
  })
})
