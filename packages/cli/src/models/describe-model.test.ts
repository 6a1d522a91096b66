import type { Loading, LoadFailure, ReplicaView, Scheduling } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { replicaView } from '../../test/model-views.ts'
import { failureText, loadingText, replicasOfNodeColumns, schedulingLines, shortRevision } from './describe-model.ts'

const now = Date.parse('2030-01-01T00:00:00Z')
const failure: LoadFailure = { code: 'unavailable', message: 'no route', at: '2030-01-01T00:00:00Z', next_retry_at: null, attempts: 2 }
const loading: Loading = { model: 'm', state: 'pending', node: null, progress: 0, current_bytes: 0, total_bytes: 0 }

describe('the description of a model', () => {
  it.each<[Partial<LoadFailure>, string]>([
    [{}, 'no route (unavailable); 2 attempts, waits for a load by an administrator or a new revision'],
    [{ next_retry_at: '2030-01-01T00:00:40Z', attempts: 1 }, 'no route (unavailable); 1 attempt, next in 40s'],
    [{ next_retry_at: '2030-01-01T00:00:04Z', attempts: 0, code: 'no_capacity' }, 'no route (no_capacity); next in 4s'],
    [{ next_retry_at: '2029-01-01T00:00:00Z', message: 'unavailable: x' }, 'unavailable: x; 2 attempts, next now'],
  ])('failure %j', (some, text) => expect(failureText({ ...failure, ...some }, now)).toBe(text))

  it.each<[Partial<Loading>, string]>([
    [{}, 'pending'],
    [{ state: 'installing', node: 'a' }, 'installing on a'],
    [{ state: 'staging', node: 'a', progress: 41.9, current_bytes: 41, total_bytes: 100 }, 'staging on a, 41 % (41 B of 100 B)'],
    [{ state: 'loading', node: 'a', progress: 50, eta_seconds: 90 }, 'loading on a, 50 %, about 1m30s left'],
  ])('loading %j', (some, text) => expect(loadingText({ ...loading, ...some })).toBe(text))

  it.each<[Scheduling, string[]]>([
    [{}, ['0 to 1 replicas', 'requests by prefix']],
    [{ min_replicas: 3 }, ['3 replicas', 'requests by prefix']],
    [{ min_replicas: 1 }, ['1 replica', 'requests by prefix']],
    [{ max_replicas: 0, policy: 'least' }, ['0 to any number of replicas', 'requests by least']],
    [
      { replicas: 'all', node_selector: { rack: ['a', 'b'], gpu: '*' }, priority: -1 },
      ['one replica on every node that matches', 'on nodes with rack=a|b, gpu=*', 'priority -1', 'requests by prefix'],
    ],
  ])('scheduling %j', (scheduling, lines) => expect(schedulingLines(scheduling)).toEqual(lines))

  it.each([
    [`sha256-${'ab'.repeat(32)}`, 'abababababab'],
    ['short', 'short'],
  ])('revision %s', (revision, short) => expect(shortRevision(revision)).toBe(short))
})

describe('the replicas of a model', () => {
  const at = '2030-01-01T00:00:00.000Z'
  it.each<[Partial<ReplicaView>, string, string]>([
    [{}, 'ready', 'yes'],
    [{ reachable: false }, 'ready', 'no'],
    [{ reachable: false, unknown_since: at }, `unknown since ${at}`, 'unknown'],
    [{ out_of_rotation: { since: at, reason: 'x' } }, 'ready, out of rotation', 'yes'],
  ])('state %j', (some, state, reachable) => {
    const cells = new Map(replicasOfNodeColumns(now).map(({ heading, cell }) => [heading, cell(replicaView(some))]))
    expect([cells.get('STATE'), cells.get('REACHABLE')]).toEqual([state, reachable])
  })

  it.each<[string, Partial<ReplicaView>, string]>([
    ['grows while it runs', { started_at: '2029-12-31T23:59:00Z' }, '1m'],
    ['of an exited one is the time that it ran', { started_at: '2029-12-31T23:00:00Z', exited_at: '2029-12-31T23:00:30Z' }, '30s'],
  ])('the uptime %s', (_, some, text) => {
    const up = replicasOfNodeColumns(now).find(({ heading }) => heading === 'UP')
    expect(up?.cell(replicaView(some))).toBe(text)
  })
})
