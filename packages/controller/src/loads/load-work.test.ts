import { silentLog, systemClock, type Clock } from '@muster/host'
import { ModelName, NodeId, OperationId, ReplicaId, type FailureCode, type Load } from '@muster/protocol'
import { waitFor } from '@muster/testkit'
import { beforeEach, expect, it } from 'vitest'
import type { LoadRecord } from '../store/load-rows.ts'
import type { LoadStore } from '../store/loads.ts'
import { createAdvance, LoadWork } from './load-work.ts'

const nothing = { rows: [], now: 0 }
let counted = { rounds: 0, idle: 0, models: 0, reconsidered: 0, claimed: 0 }
beforeEach(() => {
  isPaused = false
  counted = { rounds: 0, idle: 0, models: 0, reconsidered: 0, claimed: 0 }
})

let isPaused = false

function createWork(clock: Clock): LoadWork {
  const loads: Pick<LoadStore, 'claim' | 'forgetIdle' | 'listSets' | 'add' | 'findArrived' | 'findAway' | 'nextDue' | 'reconsider'> = {
    claim: async () => {
      counted.claimed += 1
      return nothing
    },
    forgetIdle: async () => {
      counted.idle += 1
      return []
    },
    listSets: async () => ({ ...nothing, unreadable: new Set() }),
    add: async () => undefined,
    findArrived: async () => nothing,
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
  const all = async (): Promise<[]> => {
    counted.models += 1
    return []
  }
  return new LoadWork({
    loads: loads as LoadStore,
    demand: { all, find: async () => null },
    advance: async () => null,
    apply: async () => undefined,
    tendReplicas: async () => false,
    findSpread: async () => null,
    isPaused: () => isPaused,
    ...{ holder: 'c', idleMs: 1_000, intervalMs: 10_000, log: silentLog, clock },
  })
}

/** The pauses of the first five rounds, in virtual time. */
async function runFiveRounds(): Promise<number[]> {
  const slept: number[] = []
  const stopping = new AbortController()
  let now = 0
  const sleep: Clock['sleep'] = async (ms, signal) => {
    // Everything that could wake the loop does so before time passes.
    await new Promise((resolve) => setImmediate(resolve))
    signal?.throwIfAborted()
    slept.push(ms)
    now += ms
    if (slept.length === 5) stopping.abort()
  }
  await createWork({ ...systemClock, monotonic: () => now, sleep }).run(stopping.signal)
  return slept
}

it('runs once a second while nothing happens: no look causes the next one', async () => {
  expect(await runFiveRounds()).toEqual([1_000, 1_000, 1_000, 1_000, 1_000])
  expect(counted).toMatchObject({ rounds: 5, models: 5 })
})

it('a controller that is about to stop places nothing, so that the end of its own worker fails no load', async () => {
  isPaused = true
  await runFiveRounds()
  expect(counted).toEqual({ rounds: 5, idle: 0, models: 0, reconsidered: 0, claimed: 0 })
})

it('compares all models and looks for places again once a second, however often it is woken', async () => {
  let now = 0
  const loop = createWork({ ...systemClock, monotonic: () => now })
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

const starting: Load = {
  ...{
    model: ModelName.parse('tiny'),
    purpose: 'serve',
    ordinal: 0,
    revision: 'r',
    epoch: 1,
    attempts: 0,
    pin: null,
    note: '',
    lease: null,
  },
  ...{ needsCheck: false, isRoomMade: false, state: 'starting', signAt: 0, nextAt: 0 },
  ...{ nodeId: NodeId.parse('n'), opId: OperationId.parse('op'), replicaId: ReplicaId.parse('r-1') },
}

it.each<[FailureCode, string[]]>([
  ['cancelled', ['info load cancelled']],
  ['internal', ['warn load failed']],
])('a load that ends as %s while it starts is logged as %s: the stop of a worker is no failure', async (code, logged) => {
  const lines: string[] = []
  const from = { load: starting, operationId: null, bytes: {} as LoadRecord['bytes'], requestedAt: 0, version: 1 }
  const advance = createAdvance({
    loads: { apply: async () => 'written' } as unknown as LoadStore,
    ...{ onStep: () => undefined, random: () => 0 },
    log: { ...silentLog, info: (line) => void lines.push(`info ${line}`), warn: (line) => void lines.push(`warn ${line}`) },
  })
  const failure = { code, retry: 'backoff' as const, message: 'unloaded before it was ready' }
  await advance({ read: async () => ({ rows: [from], now: 0 }), eventOf: () => ({ type: 'failed', failure }) })
  expect(lines).toEqual(logged)
})
