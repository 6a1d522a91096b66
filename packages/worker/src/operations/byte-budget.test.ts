import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createByteBudget } from './byte-budget.ts'

const open = new AbortController().signal
const settled = () => new Promise(setImmediate)

describe('the byte budget', () => {
  it('S1.24 an account gets its minimum at once, however many never release theirs', async () => {
    const budget = createByteBudget({ totalBytes: 100, minimumBytes: 10 })
    for (let n = 0; n < 50; n += 1) await budget.openAccount().reserve(10, open)
    const greedy = budget.openAccount()
    await greedy.reserve(10, open)
    let hasMore = false
    void greedy.reserve(1, open).then(() => (hasMore = true))
    await budget.openAccount().reserve(10, open)
    await settled()
    expect(hasMore).toBe(false)
    expect(budget.held()).toBe(520)
  })

  it('admits waiters when there is room, and releases bytes once', async () => {
    const budget = createByteBudget({ totalBytes: 100, minimumBytes: 0 })
    const account = budget.openAccount()
    const release = await account.reserve(80, open)
    const waiting = account.reserve(30, open)
    await settled()
    expect(budget.held()).toBe(80)
    release()
    release()
    await waiting
    expect(budget.held()).toBe(30)
  })

  it('an aborted reservation holds nothing', async () => {
    const budget = createByteBudget({ totalBytes: 10, minimumBytes: 0 })
    const account = budget.openAccount()
    const release = await account.reserve(10, open)
    const off = new AbortController()
    const waiting = account.reserve(5, off.signal)
    off.abort(new Error('called off'))
    await expect(waiting).rejects.toThrow('called off')
    release()
    await settled()
    expect(budget.held()).toBe(0)
  })

  it('never holds more than its total and a minimum for each account', async () => {
    const steps = fc.array(fc.record({ account: fc.nat({ max: 3 }), bytes: fc.integer({ min: 1, max: 60 }), gives: fc.boolean() }))
    await fc.assert(
      fc.asyncProperty(steps, async (plan) => {
        const budget = createByteBudget({ totalBytes: 60, minimumBytes: 20 })
        const accounts = [0, 1, 2, 3].map(() => budget.openAccount())
        const held: (() => void)[] = []
        for (const { account, bytes, gives } of plan) {
          void accounts[account]?.reserve(bytes, open).then((release) => held.push(release))
          await settled()
          expect(budget.held()).toBeLessThanOrEqual(60 + 4 * 20)
          if (gives) held.shift()?.()
          await settled()
        }
        for (let release = held.shift(); release !== undefined; release = held.shift()) {
          release()
          await settled()
        }
        expect(budget.held()).toBe(0)
      }),
      { numRuns: 50 },
    )
  })
})
