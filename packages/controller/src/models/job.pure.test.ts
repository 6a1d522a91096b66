import { ModelName, NodeId, OperationId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { LoadBrief } from '../store/load-rows.ts'
import type { Job, Verdict } from '../store/model-jobs.ts'
import { decideJob } from './job.pure.ts'

const [a, b] = [NodeId.parse('a'), NodeId.parse('b')]
const opId = OperationId.parse('w-1')
const failure = { code: 'disk_full', retry: 'backoff', message: 'no room' } as const

const load = (fields: Partial<LoadBrief> = {}): LoadBrief => ({
  ...{ purpose: 'serve', ordinal: 0, state: 'waiting', phase: null, nodeId: null, nodeName: null, opId: null, fileName: '' },
  ...{ operationId: null, pin: null },
  ...{ currentBytes: 0, totalBytes: 0, attempts: 0, failure: null, failedAt: null, nextAt: null, note: '' },
  ...fields,
})
const on = (nodeId: NodeId, fields: Partial<LoadBrief> = {}): LoadBrief =>
  load({ nodeId, nodeName: nodeId, opId, state: 'starting', ...fields })
const ready = (nodeId: NodeId, fields: Partial<LoadBrief> = {}): LoadBrief => on(nodeId, { state: 'ready', ...fields })
const job = (fields: Partial<Job> = {}): Job => ({
  name: ModelName.parse('tiny'),
  ...{ id: OperationId.parse('op-1'), kind: 'model.load', cancelRequested: false, replicas: 1, nodeId: null },
  model: { isUnloaded: false, requestedReplicas: fields.replicas ?? 1, scheduling: { max_replicas: 0 } },
  ...{ loads: [], nodes: [], leftOn: [] },
  ...fields,
})
const open = (...ids: NodeId[]): Job['nodes'] => ids.map((id) => ({ id, status: 'open', shown: 'downloading' }))
const erred = (id: NodeId): Job['nodes'][number] => ({ id, status: 'open', shown: 'error' })

describe('a load', () => {
  it.each<[string, Partial<Job>, Partial<Verdict>]>([
    ['waits for a place', { loads: [load()] }, { show: [], settle: [], progress: { current: 0, total: 0, message: '' } }],
    [
      'shows why no node fits, and is retried automatically',
      { loads: [load({ state: 'failed', failure, nextAt: 'then' })] },
      { progress: { current: 0, total: 0, message: 'no room' } },
    ],
    [
      'shows the backend being installed',
      { loads: [on(a, { state: 'installing' })] },
      {
        show: [{ nodeId: a, shown: { status: 'downloading', phase: 'downloading', message: 'installing the backend first', attempts: 0 } }],
      },
    ],
    [
      'shows files being fetched',
      { loads: [on(a, { phase: 'downloading', fileName: 'f', currentBytes: 1, totalBytes: 2 })] },
      { show: [{ nodeId: a, shown: { status: 'downloading', phase: 'downloading', fileName: 'f', current: 1, total: 2, attempts: 0 } }] },
    ],
    [
      'shows a failure with the next try',
      { loads: [on(a, { state: 'failed', failure, attempts: 2, nextAt: 'then' })] },
      { show: [{ nodeId: a, shown: { status: 'error', message: 'no room', attempts: 2, nextRetryAt: 'then', failure } }] },
    ],
    [
      'fails with a permanent failure',
      { loads: [on(a, { state: 'failed', failure, attempts: 1 })] },
      { end: { outcome: 'failed', message: 'no room' } },
    ],
    [
      'is done when its replica is',
      { loads: [ready(a)] },
      { show: [], settle: [{ nodeId: a, settled: { status: 'success' } }], end: { outcome: 'succeeded', message: 'a replica is ready' } },
    ],
    [
      'is not done while another slot is not',
      { replicas: 2, loads: [ready(a), on(b, { ordinal: 1, phase: 'starting' })] },
      { settle: [{ nodeId: a, settled: { status: 'success' } }] },
    ],
    [
      'shows one row for a node with two slots: what has furthest to go',
      { replicas: 2, loads: [ready(a), on(a, { ordinal: 1, phase: 'starting' })] },
      {
        show: [{ nodeId: a, shown: { status: 'downloading', phase: 'starting', fileName: '', current: 0, total: 0, attempts: 0 } }],
        settle: [],
      },
    ],
    [
      'says that it is loaded on another node only when it is',
      { nodes: open(a), loads: [ready(b)] },
      {
        settle: [
          { nodeId: b, settled: { status: 'success' } },
          { nodeId: a, settled: { status: 'skipped', message: 'loaded on another node' } },
        ],
        end: { outcome: 'succeeded', message: 'a replica is ready' },
      },
    ],
    [
      'shows a node that it left as waiting while it is loaded nowhere',
      { nodes: open(a), loads: [on(b, { state: 'installing' })] },
      { show: [{ nodeId: b }, { nodeId: a, shown: { status: 'queued' } }] as never, settle: [] },
    ],
    [
      'keeps the error of a node that it left',
      { nodes: [erred(a)], loads: [load({ state: 'failed', failure, nextAt: 'then' })] },
      { show: [], settle: [] },
    ],
    [
      'keeps the error of a node that it left when it fails for good elsewhere',
      { nodes: [erred(a)], loads: [on(b, { state: 'failed', failure })] },
      { settle: [], end: { outcome: 'failed', message: 'no room' } },
    ],
    [
      'does not fail on a node that it only left',
      { nodes: open(a), loads: [on(b, { state: 'failed', failure })] },
      {
        settle: [{ nodeId: a, settled: { status: 'skipped', message: 'the model was not loaded' } }],
        end: { outcome: 'failed', message: 'no room' },
      },
    ],
    [
      'leaves a node on which it failed when it is loaded on another',
      { nodes: [erred(a)], loads: [ready(b)] },
      {
        settle: [
          { nodeId: b, settled: { status: 'success' } },
          { nodeId: a, settled: { status: 'skipped', message: 'loaded on another node' } },
        ],
        end: { outcome: 'succeeded', message: 'a replica is ready' },
      },
    ],
    [
      'is nothing about slots that others asked for',
      { loads: [ready(a), on(b, { ordinal: 1 })] },
      { end: { outcome: 'succeeded', message: 'a replica is ready' } },
    ],
    [
      'is called off by an unload',
      { model: { isUnloaded: true, requestedReplicas: 0, scheduling: {} } },
      { end: { outcome: 'cancelled', message: 'the model was unloaded' } },
    ],
    [
      'is called off when less is wanted',
      { replicas: 2, model: { isUnloaded: false, requestedReplicas: 0, scheduling: { min_replicas: 1 } } },
      { end: { outcome: 'cancelled', message: 'fewer replicas are desired now' } },
    ],
    ['is called off by the deletion', { model: null }, { end: { outcome: 'cancelled', message: 'the model was deleted' } }],
  ])('%s', (_, fields, want) => {
    const verdict = decideJob(job(fields))
    expect(verdict).toMatchObject(want)
    expect(verdict.end).toEqual(want.end)
  })
})

describe('S0.38 an install', () => {
  const stage = (fields: Partial<LoadBrief> = {}): LoadBrief => on(a, { purpose: 'stage', ...fields })
  it.each<[string, Partial<Job>, Partial<Verdict>]>([
    [
      'shows its bytes',
      { loads: [stage({ fileName: 'f', currentBytes: 1, totalBytes: 2 })] },
      { progress: { current: 1, total: 2, fileName: 'f', message: 'fetching files on a' } },
    ],
    [
      'waits for a node',
      { loads: [stage({ state: 'waiting', nodeId: null })] },
      { progress: { current: 0, total: 0, fileName: '', message: 'waiting for a node' } },
    ],
    [
      'is tried again',
      { loads: [stage({ state: 'failed', failure, nextAt: 'then' })] },
      { progress: { current: 0, total: 0, fileName: '', message: 'no room' } },
    ],
    [
      'fails with a permanent failure',
      { loads: [stage({ state: 'failed', failure })] },
      { end: { outcome: 'failed', message: 'no room' } },
    ],
    [
      'is done when the files are there',
      { loads: [stage({ state: 'ready' })] },
      { end: { outcome: 'succeeded', message: 'the files are on a' } },
    ],
    [
      'is done also when somebody called it off too late',
      { cancelRequested: true, loads: [stage({ state: 'ready' })] },
      { end: { outcome: 'succeeded', message: 'the files are on a' } },
    ],
    ['sends its worker a stop command', { cancelRequested: true, loads: [stage()] }, { callOff: [{ nodeId: a, opId }] }],
    [
      'is over when no worker is at it',
      { cancelRequested: true, loads: [stage({ state: 'failed', failure, nextAt: 'then' })] },
      { end: { outcome: 'cancelled', message: 'cancelled' } },
    ],
    ['is over when the model is', { model: null, loads: [] }, { end: { outcome: 'cancelled', message: 'the model was deleted' } }],
    ['has no nodes', { loads: [stage(), ready(b)] }, { show: [], settle: [] }],
  ])('%s', (_, fields, want) => {
    const verdict = decideJob(job({ kind: 'model.install', ...fields }))
    expect(verdict).toMatchObject(want)
    expect(verdict.end).toEqual(want.end)
  })
})

describe('an unload', () => {
  it.each<[string, Partial<Job>, Partial<Verdict>]>([
    [
      'waits for every process of before',
      { nodes: open(a, b), leftOn: [a] },
      {
        show: [{ nodeId: a, shown: { status: 'downloading', message: 'draining' } }],
        settle: [{ nodeId: b, settled: { status: 'success' } }],
      },
    ],
    [
      'ends with the last',
      { nodes: [{ id: a, status: 'success', shown: null }] },
      { show: [], settle: [], end: { outcome: 'succeeded', message: '' } },
    ],
    ['ends also when the model is deleted meanwhile', { model: null, nodes: open(a), leftOn: [a] }, { settle: [] }],
  ])('%s', (_, fields, want) => {
    const verdict = decideJob(job({ kind: 'model.unload', ...fields }))
    expect(verdict).toMatchObject(want)
    expect(verdict.end).toEqual(want.end)
  })
})

describe('S0.29 a deletion', () => {
  it.each<[string, string[], Verdict['end']]>([
    ['goes on while a node is left', ['success', 'open'], undefined],
    ['is done when all nodes are', ['success', 'cancelled'], { outcome: 'succeeded', message: '' }],
    ['failed where a node refused for good', ['success', 'error'], { outcome: 'failed', message: '' }],
    ['came to nothing when all nodes were removed', ['cancelled'], { outcome: 'cancelled', message: '' }],
  ])('%s', (_, statuses, end) => {
    const nodes = statuses.map((status, index) => ({ id: NodeId.parse(`n${index}`), status, shown: null }))
    expect(decideJob(job({ kind: 'model.delete', model: null, nodes })).end).toEqual(end)
  })
})

it('a repeated decision is the same: nothing is left to show', () => {
  const first = decideJob(job({ loads: [ready(a)] }))
  expect(decideJob(job({ loads: [ready(a)], nodes: [{ id: a, status: 'success', shown: null }] }))).toEqual(first)
})

describe('a load on one node', () => {
  const about = (fields: Partial<Job>): Job => job({ nodeId: a, nodes: open(a), ...fields })
  it.each<[string, Partial<Job>, Partial<Verdict>]>([
    ['waits for its node', { loads: [load({ pin: a })] }, { show: [{ nodeId: a, shown: { status: 'queued', attempts: 0 } }] }],
    [
      'is done when a replica is ready there',
      { loads: [ready(b), ready(a)] },
      { end: { outcome: 'succeeded', message: 'a replica is ready' } },
    ],
    ['is not done by a replica elsewhere', { loads: [ready(b), load({ pin: a, ordinal: 1 })] }, { settle: [] }],
    [
      'shows why there is no room, and is retried',
      { loads: [load({ state: 'failed', pin: a, failure, nextAt: 'then' })] },
      { show: [{ nodeId: a, shown: { status: 'error', message: 'no room', attempts: 0, nextRetryAt: 'then', failure } }] },
    ],
    [
      'fails with a permanent failure',
      { loads: [on(a, { state: 'failed', pin: a, failure })] },
      { end: { outcome: 'failed', message: 'no room' } },
    ],
    [
      'is cancelled when the replica went elsewhere',
      { loads: [on(b)] },
      { end: { outcome: 'cancelled', message: 'the replica was placed on another node, or fewer replicas are desired now' } },
    ],
    [
      'does not wait for a load that failed there and may go anywhere',
      { loads: [on(a, { state: 'failed', failure, nextAt: 'then' })] },
      { end: { outcome: 'cancelled', message: 'the replica was placed on another node, or fewer replicas are desired now' } },
    ],
    [
      'is cancelled when the model is unloaded',
      { loads: [load({ pin: a })], model: { isUnloaded: true, requestedReplicas: 0, scheduling: {} } },
      { end: { outcome: 'cancelled', message: 'the model was unloaded' } },
    ],
    [
      'is cancelled when the model is disabled',
      { loads: [load({ pin: a })], model: { isUnloaded: false, requestedReplicas: 1, scheduling: { disabled: true } } },
      { end: { outcome: 'cancelled', message: 'the model is disabled; set "disabled" of its scheduling to false first' } },
    ],
  ])('%s', (_, fields, verdict) => expect(decideJob(about(fields))).toMatchObject(verdict))
})

describe('an unload on one node', () => {
  const about = (leftOn: NodeId[]): Job => job({ kind: 'model.unload', nodeId: a, nodes: open(a), leftOn })
  it('waits for the processes of that node, and for no others', () => {
    expect(decideJob(about([a, b]))).toMatchObject({ show: [{ nodeId: a }], settle: [] })
    expect(decideJob(about([b]))).toMatchObject({ show: [], settle: [{ nodeId: a, settled: { status: 'success' } }] })
  })
})

describe('a prefetch', () => {
  const own = OperationId.parse('op-1')
  const stagedOn = (nodeId: NodeId, fields: Partial<LoadBrief> = {}): LoadBrief =>
    on(nodeId, { purpose: 'stage', pin: nodeId, operationId: own, ...fields })
  const about = (fields: Partial<Job>): Job => job({ kind: 'model.prefetch', nodes: open(a, b), ...fields })
  const cancelled = { status: 'cancelled', message: 'cancelled' } as const
  it.each<[string, Partial<Job>, Partial<Verdict>]>([
    [
      'shows each node, and settles those that have the files',
      { loads: [stagedOn(a, { state: 'ready' }), stagedOn(b, { phase: 'downloading' })] },
      {
        settle: [{ nodeId: a, settled: { status: 'success' } }],
        show: [{ nodeId: b, shown: expect.objectContaining({ status: 'downloading' }) as never }],
      },
    ],
    [
      'fails on a node for good, and continues on the others',
      { loads: [stagedOn(a, { state: 'failed', failure, attempts: 1 }), stagedOn(b)] },
      { settle: [{ nodeId: a, settled: { status: 'error', attempts: 1, failure } }] },
    ],
    ['is retried where it failed', { loads: [stagedOn(a, { state: 'failed', failure, nextAt: 'then' }), stagedOn(b)] }, { settle: [] }],
    [
      'is over on a node that a newer one took over',
      { loads: [stagedOn(a), stagedOn(b, { operationId: OperationId.parse('op-2') })] },
      { settle: [{ nodeId: b, settled: { status: 'cancelled', message: 'the files are no longer fetched' } }] },
    ],
    [
      'sends every worker that is at work a stop command when it is cancelled',
      { cancelRequested: true, loads: [stagedOn(a), stagedOn(b, { state: 'waiting', opId: null })] },
      { callOff: [{ nodeId: a, opId }], settle: [{ nodeId: b, settled: cancelled }] },
    ],
  ])('%s', (_, fields, verdict) => expect(decideJob(about(fields))).toMatchObject(verdict))

  it('ends when its last node was removed', () => {
    expect(
      decideJob(
        about({
          nodes: [
            { id: a, status: 'success', shown: null },
            { id: b, status: 'cancelled', shown: null },
          ],
        }),
      ),
    ).toMatchObject({
      end: { outcome: 'succeeded' },
    })
  })

  it('is no part of an install of the same model', () => {
    expect(decideJob(job({ kind: 'model.install', loads: [stagedOn(a, { state: 'ready' })] }))).toMatchObject({
      end: { outcome: 'cancelled', message: 'the files are no longer fetched' },
    })
  })
})
