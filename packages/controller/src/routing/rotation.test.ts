import { Secret, silentLog, type Clock } from '@muster/host'
import { NodeId, ReplicaId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AttemptEnd } from './attempt.ts'
import type { Route } from './replica-table.ts'
import { evidenceOf, type HealthEvent, probeAfterMs, type ReplicaHealth, stepHealth } from './rotation.pure.ts'
import { createRotation } from './rotation.ts'

const answered = (status: number, hasErrorEvent = false): AttemptEnd => ({ kind: 'answered', status, hasErrorEvent })
const refused = (hasBegun: boolean): AttemptEnd => ({ kind: 'refused', why: 'x', hasBegun, isFinal: false })

describe('a finished attempt', () => {
  it.each<[string, AttemptEnd, number, 'served' | 'failed' | null]>([
    ['an answer', answered(200), 0, 'served'],
    ['a refused request', answered(400), 0, 'served'],
    ['too many requests', answered(429), 0, 'served'],
    ['an error of the engine', answered(500), 0, 'failed'],
    ['an engine that takes no requests', answered(503), 0, 'failed'],
    ['a request that it does not support', answered(501), 0, 'served'],
    ['a stream with an error at its end', answered(200, true), 0, 'failed'],
    ['an answer that broke off', { kind: 'cut', why: 'x' }, 0, 'failed'],
    ['a process without an answer', refused(true), 0, 'failed'],
    ['a replica that is not there', refused(false), 0, null],
    ['a client that left early', { kind: 'gone', hasData: false }, 29_000, null],
    ['a client that left in the middle of an answer', { kind: 'gone', hasData: true }, 90_000, null],
    ['a client that waited long and got nothing', { kind: 'gone', hasData: false }, 30_000, 'failed'],
  ])('%s', (_, end, waitedMs, is) => {
    expect(evidenceOf(end, waitedMs)?.is ?? null).toBe(is)
  })
})

describe('the health of a replica', () => {
  const failed: HealthEvent = { type: 'request', evidence: { is: 'failed', why: 'it answered 500' }, sentAt: 0 }
  const served = (sentAt: number): HealthEvent => ({ type: 'request', evidence: { is: 'served' }, sentAt })
  const probed = (failure: string | null): HealthEvent => ({ type: 'probe', failure })
  const failing = (failures: number): ReplicaHealth => ({ failures, why: 'it answered 500', out: null })
  const out: ReplicaHealth = { failures: 3, why: 'it answered 500', out: { since: 5, probes: 0 } }

  it.each<[string, ReplicaHealth | null, HealthEvent, ReplicaHealth | null]>([
    ['one failure is remembered', null, failed, failing(1)],
    ['two failures take it out of nothing', failing(1), failed, failing(2)],
    ['the third in a row takes it out of rotation', failing(2), failed, { ...out, out: { since: 9, probes: 0 } }],
    ['an answer in between clears it', failing(2), served(0), null],
    ['further failures keep it out', out, failed, { ...out, failures: 4 }],
    ['an answer to a request from before proves nothing', out, served(4), out],
    ['an answer to a later request brings it back', out, served(5), null],
    ['a probe that fails keeps it out', out, probed('still 500'), { failures: 3, why: 'still 500', out: { since: 5, probes: 1 } }],
    ['a probe that is answered brings it back', out, probed(null), null],
    ['a probe after its return changes nothing', null, probed('500'), null],
  ])('%s', (_, health, event, after) => {
    expect(stepHealth(health, event, 9)).toEqual(after)
  })

  it('is probed after 1 s, then 2 s, and at least every 30 s', () => {
    expect([0, 1, 4, 5, 50].map((probes) => probeAfterMs({ since: 0, probes }))).toEqual([1_000, 2_000, 16_000, 30_000, 30_000])
  })
})

function world() {
  const wakes: (() => void)[] = []
  let [failure, isRouted]: [string | null, boolean] = ['it answered 500', true]
  const changes: string[] = []
  const clock: Clock = { now: () => 1_000, monotonic: () => 1_000, sleep: () => new Promise((resolve) => wakes.push(resolve)) }
  const rotation = createRotation({
    ...{ clock, log: silentLog, probe: async () => failure, isRouted: () => isRouted, onChange: (id) => void changes.push(id) },
  })
  const route: Route = {
    ...{ replicaId: ReplicaId.parse('r-1'), mark: 1, model: 'tiny', revision: 'r', nodeId: NodeId.parse('n-1'), nodeName: 'a' },
    ...{ origin: 'http://127.0.0.1:1', path: '/replicas/r-1', authorization: '', secret: new Secret('s') },
  }
  const record = (status: number): void => rotation.record({ route, path: '/v1/chat/completions', sentAt: 1_000, end: answered(status) })
  const wake = async (): Promise<void> => {
    for (const resolve of wakes.splice(0)) resolve()
    await nextTurn()
  }
  return { rotation, changes, record, wake, heal: () => (failure = null), remove: () => (isRouted = false), sleeping: () => wakes.length }
}

describe('a sick engine', () => {
  it('gets no requests after three failures in a row, until a probe is answered', async () => {
    const { rotation, changes, record, wake, heal } = world()
    for (const status of [500, 500, 200, 500, 500]) record(status)
    expect(rotation.isOut('r-1')).toBe(false)
    record(502)
    expect(rotation.isOut('r-1')).toBe(true)
    expect(rotation.noteOf('r-1')).toEqual({
      since: '1970-01-01T00:00:01.000Z',
      reason: expect.stringMatching(/failed \(it answered 502\)/),
    })
    await wake()
    expect(rotation.isOut('r-1')).toBe(true)
    heal()
    await wake()
    expect([rotation.isOut('r-1'), rotation.noteOf('r-1'), changes]).toEqual([false, null, ['r-1', 'r-1']])
  })

  it('is probed by one loop at a time, and no longer once it is removed', async () => {
    const { rotation, record, wake, remove, sleeping } = world()
    for (const status of [500, 500, 500, 500, 200, 500, 500, 500]) record(status)
    expect([rotation.isOut('r-1'), sleeping()]).toEqual([true, 1])
    remove()
    await wake()
    expect([rotation.isOut('r-1'), sleeping()]).toEqual([false, 0])
  })
})
