import { silentLog, systemClock } from '@muster/host'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import type { LoadStore } from '../store/loads.ts'
import { LoadWork } from './load-work.ts'

it('compares all models and looks for places again once a second, however often it is woken', async () => {
  const counted = { rounds: 0, idle: 0, models: 0, reconsidered: 0 }
  const nothing = { rows: [], now: 0 }
  const loads: Pick<LoadStore, 'claim' | 'forgetIdle' | 'listSets' | 'add' | 'findAway' | 'nextDue' | 'reconsider'> = {
    claim: async () => nothing,
    forgetIdle: async () => {
      counted.idle += 1
      return []
    },
    listSets: async () => nothing,
    add: async () => undefined,
    findAway: async () => nothing,
    nextDue: async () => {
      counted.rounds += 1
      return null
    },
    reconsider: async () => {
      counted.reconsidered += 1
      return false
    },
  }
  let now = 0
  const loop = new LoadWork({
    loads: loads as LoadStore,
    demand: {
      all: async () => {
        counted.models += 1
        return []
      },
      of: async () => null,
    },
    advance: async () => null,
    apply: async () => undefined,
    tendReplicas: async () => false,
    ...{ holder: 'c', idleMs: 1_000, intervalMs: 10_000, log: silentLog },
    clock: { ...systemClock, monotonic: () => now },
  })
  const stopping = new AbortController()
  loop.noteNodes()
  const running = loop.run(stopping.signal)
  const rounds = async (count: number): Promise<void> => {
    const until = counted.rounds + count
    await waitFor(
      () => {
        loop.noteNodes()
        return counted.rounds >= until
      },
      { what: 'rounds' },
    )
  }
  await rounds(10)
  now = 999
  await rounds(10)
  expect(counted).toMatchObject({ idle: 1, models: 1, reconsidered: 1 })
  now = 1_000
  await rounds(10)
  expect(counted).toMatchObject({ idle: 2, models: 2, reconsidered: 2 })
  stopping.abort()
  await running
})
