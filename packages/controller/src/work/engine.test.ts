import { silentLog, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { expect, it, vi } from 'vitest'
import { createEngine, withLease, type Work } from './engine.ts'

/** Items that are due at once, and a way to let each of them finish. */
function world(count: number, over: Partial<Work<number>> = {}) {
  const due = Array.from({ length: count }, (_, index) => index)
  const state = { claims: 0, running: new Map<number, () => void>(), done: [] as number[] }
  const work: Work<number> = {
    what: 'cannot work; retrying',
    lanes: 4,
    batch: 2,
    async claim(limit) {
      state.claims += 1
      return due.splice(0, limit)
    },
    async run(item) {
      await new Promise<void>((resolve) => state.running.set(item, resolve))
      state.running.delete(item)
      state.done.push(item)
    },
    nextMs: async () => Infinity,
    ...over,
  }
  const error = vi.fn()
  const engine = createEngine(work, { intervalMs: 60_000, clock: systemClock, log: { ...silentLog, error } })
  const stopping = new AbortController()
  const running = engine.run(stopping.signal)
  return {
    ...{ state, engine, due, error },
    async stop(): Promise<void> {
      stopping.abort()
      for (const finish of state.running.values()) finish()
      await running
    },
  }
}

it('runs as many items at once as it has lanes, and claims more when a batch of them is free', async () => {
  const { state, stop } = world(7)
  await waitFor(() => state.running.size === 4, { what: 'full lanes' })
  state.running.get(0)?.()
  await waitFor(() => state.done.length === 1, { what: 'one item' })
  expect(state.running.size).toBe(3)
  state.running.get(1)?.()
  await waitFor(() => state.running.has(4) && state.running.has(5), { what: 'the next batch' })
  expect(state.running.size).toBe(4)
  await stop()
})

it('an item that throws is logged and keeps no other one from running', async () => {
  const done: number[] = []
  const { error, stop } = world(3, {
    async run(item) {
      if (item === 0) throw new Error('broken')
      done.push(item)
    },
  })
  await waitFor(() => done.length === 2, { what: 'the others' })
  expect(error).toHaveBeenCalledTimes(1)
  await stop()
})

it('claims again at once when tending made something due, and when it is woken', async () => {
  let hasTended = false
  const { state, engine, due, stop } = world(0, {
    async tend() {
      if (hasTended) return false
      hasTended = true
      due.push(7)
      return true
    },
  })
  await waitFor(() => state.running.has(7), { what: 'the item that tending made due' })
  due.push(8)
  engine.wake()
  await waitFor(() => state.running.has(8), { what: 'the item that was woken for' })
  await stop()
})

it('polls slowly while no lane is free, whatever is due', async () => {
  const { state, stop } = world(20, { nextMs: async () => 0 })
  await waitFor(() => state.running.size === 4, { what: 'full lanes' })
  const { claims } = state
  await systemClock.sleep(100)
  expect(state.claims - claims).toBe(0)
  await stop()
})

it('waits for its lanes when it stops', async () => {
  const { state, stop } = world(2)
  await waitFor(() => state.running.size === 2, { what: 'running items' })
  await stop()
  expect(state.done.toSorted((a, b) => a - b)).toEqual([0, 1])
})

it('work that loses its lease is aborted and has no outcome', async () => {
  const clock = { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(1, signal) }
  const { signal } = new AbortController()
  let renewals = 0
  const renew = async (): Promise<boolean> => (renewals += 1) < 3
  const outcome = await withLease({ renew, clock, signal }, async (lost) => {
    await systemClock.sleep(60_000, lost)
    return 'done'
  })
  expect(outcome).toBeNull()
  expect(renewals).toBe(3)
  expect(await withLease({ renew: async () => true, clock, signal }, async () => 'done')).toBe('done')
})
