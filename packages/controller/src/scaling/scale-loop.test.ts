import { silentLog, systemClock } from '@muster/host'
import { ModelName, ReplicaId } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { expect, it } from 'vitest'
import type { ScalableModel, ScaleChange } from '../store/scaling.ts'
import { withLive } from '../with-live.ts'
import { createScaleLoop } from './scale-loop.ts'

it('decides nothing before enough heartbeats, and writes nothing without a change', async () => {
  const seen = { asked: 0, listed: 0, written: [] as ScaleChange[][] }
  const tiny: ScalableModel = {
    ...{ name: ModelName.parse('tiny'), scheduling: { max_replicas: 2 }, requestedReplicas: 1, isUnloaded: false },
    ...{ busySince: 5_000, slackSince: null, loads: 1, failed: 0, ready: [ReplicaId.parse('r-1')], slots: 1 },
  }
  const loop = createScaleLoop({
    scaling: {
      list: async () => {
        seen.listed += 1
        // Busy for too short, and then for long enough.
        return { now: seen.listed === 1 ? 14_999 : 15_000, models: [tiny] }
      },
      write: async (changes) => {
        seen.written.push([...changes])
        return []
      },
    },
    inFlight: () => 2,
    isInformed: () => {
      seen.asked += 1
      return seen.asked > 3
    },
    ...{ idleMs: 1_000, log: silentLog },
    clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(1, signal) },
  })
  const stopping = new AbortController()
  const running = loop.run(stopping.signal)
  await waitFor(() => seen.listed >= 2, { what: 'two looks' })
  stopping.abort()
  await running
  expect(seen.asked - seen.listed).toBe(3)
  expect(seen.written[0]).toEqual([])
  expect(seen.written[1]).toMatchObject([{ from: { name: 'tiny' }, to: { requestedReplicas: 2, busySince: null } }])
})

it('reads the idle time in each round, so that a change at run time counts', async () => {
  const settings = { idleMs: 60_000 }
  const written: ScaleChange[][] = []
  const idle: ScalableModel = {
    ...{ name: ModelName.parse('tiny'), scheduling: { max_replicas: 2 }, requestedReplicas: 2, isUnloaded: false },
    ...{ busySince: null, slackSince: 0, loads: 2, failed: 0, ready: [ReplicaId.parse('r-1'), ReplicaId.parse('r-2')], slots: 1 },
  }
  const loop = createScaleLoop(
    withLive(
      {
        scaling: {
          list: async () => ({ now: 30_000, models: [idle] }),
          write: async (changes: readonly ScaleChange[]) => {
            written.push([...changes])
            settings.idleMs = 10_000
            return []
          },
        },
        ...{ inFlight: () => 0, isInformed: () => true, log: silentLog },
        clock: { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(1, signal) },
      },
      { idleMs: () => settings.idleMs },
    ),
  )
  const stopping = new AbortController()
  const running = loop.run(stopping.signal)
  await waitFor(() => written.length >= 2, { what: 'two rounds' })
  stopping.abort()
  await running
  expect(written[0]).toEqual([])
  expect(written[1]).toMatchObject([{ to: { requestedReplicas: 1 } }])
})
