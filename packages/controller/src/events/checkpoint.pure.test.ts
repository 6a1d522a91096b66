import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { advance, settleAfterMs, startAt } from './checkpoint.pure.ts'

describe('a checkpoint', () => {
  it('is settled at once without open transactions', () => {
    expect(advance(startAt(4), { highestSeq: 7, xmin: 100n, xid: 100n, at: 0 })).toEqual({ settled: 7, open: [] })
  })
  it('is not settled while an older transaction is open', () => {
    const before = advance(startAt(4), { highestSeq: 7, xmin: 99n, xid: 101n, at: 0 })
    expect(before.settled).toBe(4)
    expect(advance(before, { highestSeq: 7, xmin: 101n, xid: null, at: 1 })).toEqual({ settled: 7, open: [] })
  })
  it('settles by age when a foreign transaction never ends', () => {
    const before = advance(startAt(4), { highestSeq: 7, xmin: 50n, xid: 101n, at: 0 })
    expect(advance(before, { highestSeq: 7, xmin: 50n, xid: 300n, at: settleAfterMs + 1 }).settled).toBe(7)
  })

  it('never passes a number that is not committed, in any order of begins, draws and commits', () => {
    // A history: transactions begin (draw an xid), draw a number later, and commit or roll back later still. As in
    // PostgreSQL, xmin is the smallest id still running, or the next one when none runs.
    const step = fc.oneof(
      fc.record({ do: fc.constant('begin' as const) }),
      fc.record({ do: fc.constantFrom('draw' as const, 'commit' as const, 'abort' as const), pick: fc.nat(9) }),
      fc.record({ do: fc.constant('read' as const) }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        let [xid, seq, seen] = [10n, 0, startAt(0)]
        const running: { xid: bigint; seq: number | null }[] = []
        const visible = new Set<number>()
        for (const s of steps) {
          if (s.do === 'begin') running.push({ xid: xid++, seq: null })
          else if (s.do === 'read') {
            const xmin = running.reduce((min, t) => (t.xid < min ? t.xid : min), xid)
            const highestSeq = Math.max(0, ...visible)
            seen = advance(seen, { highestSeq, xmin, xid: highestSeq > seen.settled ? xid++ : null, at: 0 })
          } else if (running.length > 0) {
            const at = s.pick % running.length
            const transaction = running[at]
            if (transaction === undefined) continue
            if (s.do === 'draw') transaction.seq ??= ++seq
            else running.splice(at, 1)
            if (s.do === 'commit' && transaction.seq !== null) {
              expect(transaction.seq).toBeGreaterThan(seen.settled)
              visible.add(transaction.seq)
            }
          }
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
