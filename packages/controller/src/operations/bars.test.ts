import { silentLog, type Clock } from '@muster/host'
import { OperationId } from '@muster/protocol'
import { expect, it } from 'vitest'
import { createBars } from './progress.ts'
import { viewOperation } from './view.ts'

const id = OperationId.parse('op-1')

function world() {
  const kept: { id: string; progress: number }[][] = []
  let [rounds, isBroken, now] = [0, false, 0]
  const locked = new Set<string>()
  const stopping = new AbortController()
  const clock: Clock = {
    now: () => now,
    monotonic: () => now,
    sleep: async () => {
      rounds -= 1
      now += 1_000
      if (rounds <= 0) stopping.abort()
    },
  }
  const bars = createBars({
    operations: {
      raiseProgress: async (shown) => {
        if (isBroken) throw new Error('no database')
        kept.push(shown.map((each) => ({ id: each.id, progress: each.progress })))
        const skipped = new Set(locked)
        locked.clear()
        return skipped
      },
    },
    clock,
    log: silentLog,
  })
  const shown = (progress: number, finishedAt: string | null = null): number => {
    const record = {
      id,
      kind: 'backend.install' as const,
      backend: 'llama',
      model: null,
      requestedBy: '',
      createdAt: '',
      finishedAt,
      pausedAt: null,
      dismissedAt: null,
    }
    return bars.raise({ ...viewOperation({ ...record, progress: 0, fileName: '', job: null, nodes: [] }), progress }, 0).progress
  }
  const run = async (count: number): Promise<void> => {
    rounds = count
    await bars.run(stopping.signal)
  }
  return { shown, run, kept, breakDown: () => (isBroken = true), lock: () => locked.add(id) }
}

it('S2.33 a bar is never shown less far than it was', () => {
  const { shown } = world()
  expect([10, 41.2, 33, 41.3, 0].map((progress) => shown(progress))).toEqual([10, 41.2, 41.2, 41.3, 41.3])
  expect(shown(5, 'then')).toBe(41.3)
})

it('history is shown unchanged', () => {
  const { shown } = world()
  expect([shown(60, 'then'), shown(40, 'then')]).toEqual([60, 40])
})

it('D12 shown progress is stored, once', async () => {
  const { shown, run, kept } = world()
  for (const progress of [10, 20, 30]) shown(progress)
  await run(3)
  expect(kept.flat()).toEqual([{ id, progress: 30 }])
})

it('shown progress whose row was locked is stored the next time, although nothing moves any more', async () => {
  const { shown, run, kept, lock } = world()
  shown(30)
  lock()
  await run(4)
  expect(kept.filter((each) => each.length > 0)).toEqual([[{ id, progress: 30 }], [{ id, progress: 30 }]])
})

it('is held here while the database is away', async () => {
  const { shown, run, kept, breakDown } = world()
  breakDown()
  shown(30)
  await run(2)
  expect([shown(10), kept]).toEqual([30, []])
})
