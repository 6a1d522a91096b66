import { NodeId, type Failure } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { MovingNode, RolloutLoad, RolloutNodeRecord, RolloutReplica } from '../store/rollouts.ts'
import { factsOf, type RolloutStage } from './rollout.pure.ts'

const [before, done, after] = [1_000_000, 2_000_000, 3_000_000]
const failure: Failure = { code: 'internal', retry: 'backoff', message: 'it crashed' }
const noRoom: Failure = { code: 'no_capacity', retry: 'backoff', message: 'no room' }

const replica = (more: Partial<RolloutReplica> = {}): RolloutReplica => ({
  ...{ model: 'tiny', isOwn: true, state: 'ready', revision: 'r1', digest: 'old', checked: 'passed', wasDrained: false },
  ...{ createdAt: before, exitedAt: null, exit: null },
  ...more,
})
const moved = replica({ digest: 'new', createdAt: after })
const crashed = (at: number, more: Partial<RolloutReplica> = {}): RolloutReplica =>
  replica({ state: 'exited', createdAt: at - 1, exitedAt: at, exit: { exit_code: 1 }, ...more })
const load = (more: Partial<RolloutLoad> = {}): RolloutLoad => ({
  ...{
    model: 'tiny',
    state: 'ready',
    revision: 'r1',
    attempts: 0,
    failure: null,
    failedAt: null,
    requestedAt: before,
    pin: 'here',
    note: '',
  },
  ...more,
})
const failedLoad = (more: Partial<RolloutLoad> = {}): RolloutLoad =>
  load({ state: 'failed', attempts: 1, failure, failedAt: after, requestedAt: after, ...more })

const stageOf = (moving: Partial<MovingNode> | null, more: Partial<RolloutNodeRecord> = {}): RolloutStage | undefined => {
  const node: RolloutNodeRecord = {
    ...{ nodeId: NodeId.parse('a'), name: 'a', ring: 1, isReachable: true, canReturn: true, state: 'applied', awaitsRing: false },
    ...{ cancelRequested: false, rollbackError: null, note: '', lastFailure: null, message: '' },
    moving:
      moving === null
        ? null
        : { finishedAt: done, planDigest: 'new', listedDigest: 'new', inventoryAt: after, replicas: [], loads: [], ...moving },
    ...more,
  }
  const spec = { canary: 1, maxParallel: 1, minHealthyMs: 0 }
  const record = { backend: 'llama', spec, ring: 1, rings: 1, wellMs: null, waits: null, failure: null, isPaused: false, nodes: [node] }
  return factsOf(record).nodes[0]?.stage
}

describe('a node of a rollout stands', () => {
  it.each<[string, Partial<RolloutNodeRecord>, RolloutStage]>([
    ['settled without an intent', { state: null }, { state: 'settled' }],
    ['held until its ring begins', { state: 'waiting', awaitsRing: true }, { state: 'waiting' }],
    ['begun', { state: 'working', cancelRequested: true }, { state: 'begun', cancelRequested: true }],
    ['returning', { state: 'waiting', rollbackError: 'e' }, { state: 'returning' }],
    ['upgraded when nothing is watched', {}, { state: 'upgraded' }],
    ['settled when it has returned', { rollbackError: 'e' }, { state: 'settled' }],
    ['failed', { state: 'dead', lastFailure: failure }, { state: 'failed', failure }],
    ['settled when its return failed', { state: 'failed', lastFailure: failure, rollbackError: 'e' }, { state: 'settled' }],
  ])('%s', (_, more, want) => {
    expect(stageOf(null, more)).toEqual(want)
  })
})

describe('replicas left to be moved', () => {
  it.each<[string, Partial<MovingNode>, readonly string[]]>([
    ['of the old version', { replicas: [replica(), replica({ model: 'small' }), moved] }, ['tiny', 'small']],
    ['none of another backend', { replicas: [replica({ isOwn: false })] }, []],
    [
      'that start or are not checked',
      { replicas: [replica({ ...moved, state: 'starting' }), replica({ ...moved, checked: 'due' })] },
      ['tiny', 'tiny'],
    ],
    ['with loads that are not up', { replicas: [moved], loads: [load({ state: 'waiting' })] }, ['tiny']],
    ['not those whose version is unknown', { replicas: [replica({ digest: '' })] }, []],
    ['all while no version is listed', { planDigest: null, inventoryAt: before, replicas: [moved] }, ['tiny']],
    ['by the listed version when it is newer than the plan', { listedDigest: 'newest', replicas: [moved] }, ['tiny']],
    ['by the plan while the inventory is old', { listedDigest: 'old', inventoryAt: before, replicas: [moved] }, []],
    ['not of a model that has no room elsewhere', { replicas: [replica()], loads: [failedLoad({ pin: 'none', failure: noRoom })] }, []],
    [
      'also when a load fails on another node of the rollout',
      { replicas: [replica()], loads: [failedLoad({ pin: 'in_rollout' })] },
      ['tiny'],
    ],
    [
      'not of a model that failed before',
      { replicas: [replica()], loads: [failedLoad({ pin: 'in_rollout', attempts: 2, requestedAt: before })] },
      [],
    ],
    ['not of a model that kept exiting before', { replicas: [replica(), crashed(done - 2), crashed(done - 1)] }, []],
    ['also of one that exited once before', { replicas: [replica(), crashed(done - 1)] }, ['tiny']],
  ])('%s', (_, moving, left) => {
    expect(stageOf(moving)).toMatchObject({ state: 'proving', left })
  })

  it('on the way back are those of the new version', () => {
    const back = { planDigest: 'old', listedDigest: 'old', replicas: [moved, replica()] }
    expect(stageOf(back, { rollbackError: 'e' })).toEqual({ state: 'back', left: ['tiny'], notes: [], error: 'e' })
    const stuck = stageOf({ ...back, loads: [failedLoad({ pin: 'none', failure: noRoom })] }, { rollbackError: 'e' })
    expect(stuck).toMatchObject({ left: [], notes: ['tiny stays on the new version for now: no room'] })
  })

  it('has notes about everything unusual', () => {
    const loads = [load({ note: 'recreated' }), failedLoad({ model: 'small', pin: 'elsewhere' })]
    const stage = stageOf({ planDigest: null, inventoryAt: null, replicas: [replica({ model: 'small' })], loads }, { note: 'recreate' })
    expect(stage).toMatchObject({
      notes: [
        'recreate',
        'recreated',
        'small stays on the previous version for now: it crashed',
        'the node has not listed the new version yet',
      ],
    })
  })
})

describe('trouble with the new version', () => {
  it.each<[string, Partial<MovingNode>, object | null]>([
    ['is a load that failed there since', { loads: [failedLoad()] }, { kind: 'load', model: 'tiny', failure }],
    ['is not one that failed before', { loads: [failedLoad({ failedAt: before })] }, null],
    ['is not a lack of room', { loads: [failedLoad({ failure: noRoom })] }, null],
    ['is a failed check', { replicas: [replica({ ...moved, checked: 'failed' })] }, { kind: 'check', model: 'tiny' }],
    ['is an exit', { replicas: [crashed(after + 1)] }, { kind: 'exit', model: 'tiny', exit: { exit_code: 1 } }],
    ['is not an exit that was requested', { replicas: [crashed(after + 1, { wasDrained: true })] }, null],
    ['is not an exit that was expected', { replicas: [crashed(after + 1, { exit: { exit_code: 0, expected: true } })] }, null],
    ['is not an exit of an older process', { replicas: [crashed(after, { createdAt: before })] }, null],
  ])('%s', (_, moving, trouble) => {
    expect(stageOf(moving)).toMatchObject({ state: 'proving', trouble })
  })
})
