import { BackendName, NodeId, OperationId, type Failure, type Intent, type OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { type ReportedBytes, type IntentRecord, nothingToFetch, type Plan } from '../store/intent-rows.ts'
import type { NodeFactsRow, OperationNodeRecord, OperationRecord } from '../store/operations.ts'
import type { ReceivedProgress } from './progress.ts'
import { viewOperation, type LatestProgress } from './view.ts'

const opId = OperationId.parse('op-1')
const failure: Failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' }
const noBytes: ReportedBytes = { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: null }
const healthy: NodeFactsRow = { approved: true, draining: false, liveness: 'present', answering: 'yes', lastSeenAt: null }
const result = { state: 'working' as const, acceptedAt: 1, signAt: 1, wait: { for: 'result' as const } }
const reply = { ...result, wait: { for: 'reply' as const, holder: 'c', leaseUntil: 9 } }
const waiting = { state: 'waiting' as const, nextAt: 5_000, wasSent: true }

type Open = {
  how?: object
  bytes?: Partial<ReportedBytes>
  size?: number | null
  node?: Partial<NodeFactsRow>
  since?: number
  held?: boolean
  paused?: boolean
  ring?: number | null
  plan?: Partial<Plan>
}

function open(
  name: string,
  { how = result, bytes = {}, size = null, node = {}, since = 0, held = false, paused = false, ring = null, plan: planned = {} }: Open = {},
): OperationNodeRecord {
  const about = { nodeId: NodeId.parse(name), backend: BackendName.parse('llama'), kind: 'install', generation: 1, epoch: 1, opId }
  const intent = {
    ...about,
    attempts: 0,
    lastFailure: null,
    isOverdue: false,
    mayRecreate: false,
    replaced: [],
    cancelRequested: false,
    ...how,
  } as unknown as Intent
  const plan = { ...nothingToFetch, sizeBytes: size, ...planned }
  const record: IntentRecord = {
    intent,
    plan,
    bytes: { ...noBytes, ...bytes },
    triedSince: since,
    polledAt: null,
    requestedAt: '',
    awaitsRing: held,
    isPaused: paused,
    rowVersion: 1,
  }
  return { nodeId: name, nodeName: name, ring, status: 'open', record, node: { ...healthy, ...node } }
}

function settled(name: string, status: 'success' | 'error' | 'cancelled' | 'skipped', fields: object = {}): OperationNodeRecord {
  const plain = { message: '', error: null, errorCode: null, attempts: 0, dead: false, current: 0, total: 0, percentage: 0 }
  return { nodeId: name, nodeName: name, ring: null, ...plain, status, ...fields }
}

const operation = (nodes: OperationNodeRecord[], fields: Partial<OperationRecord> = {}): OperationRecord => ({
  ...{
    id: opId,
    kind: 'backend.install',
    backend: 'llama',
    model: null,
    requestedBy: 'admin',
    createdAt: '',
    finishedAt: null,
    pausedAt: null,
    dismissedAt: null,
  },
  ...{ progress: 0, fileName: '', job: null, nodes, ...fields },
})
const hears =
  (ticks: Record<string, Partial<ReceivedProgress>>): LatestProgress =>
  (nodeId, _, since) => {
    const tick = ticks[nodeId]
    if (tick === undefined || (tick.epoch === undefined ? 1 : (tick.epoch ?? since)) < since) return null
    return { ...noBytes, receivedAt: 1, epoch: 1, silence: null, ...tick }
  }
const view = (nodes: OperationNodeRecord[], ticks: Parameters<typeof hears>[0] = {}): OperationView =>
  viewOperation(operation(nodes), hears(ticks))

const fresh = { ...waiting, wasSent: false }

describe('a node of a rollout', () => {
  it.each<[string, Open, object]>([
    ['waits for its ring', { how: fresh, held: true, ring: 3 }, { status: 'queued', message: 'waiting for ring 3', ring: 3 }],
    [
      'or for its node',
      { how: fresh, held: true, ring: 3, node: { liveness: 'left' } },
      { message: 'node offline, will retry when healthy' },
    ],
    [
      'says where it returns to',
      { how: result, ring: 1, plan: { version: '1.2', rollback: { error: 'e', plan: null } } },
      { status: 'downloading', message: 'returning to 1.2' },
    ],
  ])('%s', (_, how, want) => {
    expect(view([open('n', how)]).nodes).toMatchObject([want])
  })

  it('that waits for its ring keeps the operation running', () => {
    expect(view([open('n', { how: fresh, held: true, ring: 2 })]).state).toBe('running')
  })
})

describe('a node of a paused operation', () => {
  const failed = { ...waiting, lastFailure: failure, attempts: 2 }
  it.each<[string, Open, object]>([
    ['is not begun', { how: fresh }, { status: 'queued', message: 'paused', paused: true }],
    [
      'has no next attempt',
      { how: failed },
      { status: 'queued', message: 'paused; the last attempt failed: the registry is away', next_retry_at: null, attempts: 2 },
    ],
    ['is not begun when it returns', { how: fresh, node: { liveness: 'left' } }, { status: 'queued', message: 'paused' }],
    ['is being cancelled', { how: { ...waiting, cancelRequested: true } }, { message: 'cancelling', cancelling: true }],
    ['finishes what it does', { how: result }, { status: 'downloading', message: '' }],
    ['that is overdue may still end', { how: { ...waiting, isOverdue: true } }, { status: 'running_on_worker' }],
  ])('%s', (_, how, want) => {
    expect(view([open('n', { ...how, paused: true })]).nodes).toMatchObject([want])
  })

  it('the operation says so, in the background once no node works', () => {
    const pausedAt = '2030-01-01T00:00:00.000Z'
    const show = (nodes: OperationNodeRecord[], fields: Partial<OperationRecord> = {}) =>
      viewOperation(operation(nodes, { pausedAt, ...fields }))
    const held = open('a', { how: fresh, paused: true })
    expect(show([held])).toMatchObject({ state: 'background', message: 'paused; 0 of 1 nodes done', paused_at: pausedAt })
    expect(show([held, open('b', { paused: true })])).toMatchObject({ state: 'running' })
    const ended = show([settled('a', 'success')], { finishedAt: pausedAt })
    expect([ended.paused_at, ended.message]).toEqual([undefined, 'done'])
  })
})

describe('a node', () => {
  it('S0.17 S2.29 shows everything that is known of it', () => {
    const bytes = { phase: 'extracting' as const, fileName: 'sha256:ab (2/6)', current: 25, total: 100, percentage: 25.04, seq: 3 }
    expect(view([open('n', { bytes })]).nodes).toEqual([
      {
        ...{ node_id: 'n', node_name: 'n', status: 'downloading', phase: 'extracting', message: '', file_name: 'sha256:ab (2/6)' },
        ...{
          current: 25,
          total: 100,
          percentage: 25,
          attempts: 0,
          next_retry_at: null,
          dead: false,
          ring: null,
          error: null,
          error_code: null,
        },
      },
    ])
  })

  it.each<[string, Open, Partial<ReceivedProgress>, object]>([
    [
      'received bytes are newer than the stored ones; a percentage is shown once it is stored, and so never goes back after a kill',
      { bytes: { percentage: 10, current: 1, seq: 3 } },
      { percentage: 20, current: 2, seq: 4 },
      { percentage: 10, current: 2 },
    ],
    [
      'S2.44 received progress is older than that stored by another controller',
      { bytes: { percentage: 30, seq: 9 } },
      { percentage: 20, seq: 4 },
      { percentage: 30 },
    ],
    [
      'I10 a worker that was restarted begins lower',
      { bytes: { percentage: 30, seq: 9 } },
      { percentage: 2, current: 7, seq: 10 },
      { percentage: 30, current: 7 },
    ],
    ['S2.48 sent without a reply', { how: reply }, { epoch: 0, seq: null }, { status: 'queued', phase: null }],
    ['an old worker that says no bytes yet is in work', { how: reply }, { fileName: 'layer', epoch: null }, { status: 'downloading' }],
    [
      'a tick without a try does not count once the try has failed',
      { how: { ...waiting, attempts: 1, lastFailure: failure } },
      { percentage: 60, epoch: null },
      { status: 'error', percentage: 0, attempts: 1, next_retry_at: '1970-01-01T00:00:05.000Z', error_code: 'unavailable' },
    ],
    [
      'I10 progress of a failed attempt does not count for the next',
      { how: { ...waiting, attempts: 1, lastFailure: failure }, since: 2 },
      { percentage: 60, seq: 7 },
      { status: 'error', percentage: 0, current: 0, file_name: '' },
    ],
    [
      'S2.48 after the timeout phase and bytes go on',
      { how: { ...result, isOverdue: true } },
      { percentage: 60, current: 6, phase: 'extracting', seq: 2 },
      { status: 'running_on_worker', phase: 'extracting', current: 6 },
    ],
    [
      'a source that sends nothing is named, with the time of its last byte',
      { bytes: { percentage: 30, seq: 1 } },
      { percentage: 30, seq: 2, silence: { since: 61_000, server: 'ghcr.io', reason: '' } },
      {
        status: 'downloading',
        message: 'ghcr.io has sent nothing since 00:01:01 UTC',
        source_silent_since: '1970-01-01T00:01:01.000Z',
      },
    ],
    [
      'a source that limits requests is quoted',
      { bytes: { percentage: 30, seq: 1 } },
      { percentage: 30, seq: 2, silence: { since: 61_000, server: 'ghcr.io', reason: 'ghcr.io limits requests (429)' } },
      { message: 'waiting for ghcr.io since 00:01:01 UTC: ghcr.io limits requests (429)' },
    ],
    [
      'the silence of a source says nothing about a node that is away',
      { bytes: { percentage: 30, seq: 1 }, node: { liveness: 'silent' } },
      { percentage: 30, seq: 2, silence: { since: 61_000, server: 'ghcr.io', reason: '' } },
      { status: 'queued', message: expect.not.stringContaining('ghcr.io') },
    ],
    [
      'silent while downloading: queued, bytes kept',
      { bytes: { percentage: 30, current: 3, seq: 1 }, node: { liveness: 'silent' } },
      { percentage: 0, epoch: 0 },
      { status: 'queued', percentage: 30, current: 3, message: 'node unhealthy, will retry when healthy' },
    ],
    ['how much it will be is known before it begins', { size: 500 }, { epoch: 0 }, { total: 500, current: 0 }],
  ])('%s', (_, row, tick, want) => {
    const since = tick.epoch === 0 ? { since: 1 } : {}
    expect(view([open('n', { ...since, ...row })], { n: tick }).nodes[0]).toMatchObject(want)
  })

  it.each<[string, number, string, string | null]>([
    ['S2.48 progress before the answer', 1, 'downloading', 'resolving'],
    ['S2.48 sent again, with progress of the previous attempt only', 0, 'queued', null],
  ])('%s', (_, epoch, status, phase) => {
    const sending = { state: 'sending', holder: 'c', leaseUntil: 9 }
    const [node] = view([open('n', { how: sending, bytes: { percentage: 30, seq: 1 } })], {
      n: { epoch, phase: 'resolving', percentage: 30, seq: 2 },
    }).nodes
    expect(node).toMatchObject({ status, phase, percentage: 30 })
  })

  it('B2 S2.44 progress after the end changes nothing', () => {
    const done = settled('n', 'success', { current: 10, total: 10, percentage: 100 })
    expect(view([done], { n: { percentage: 3, current: 1, seq: 999 } }).nodes[0]).toMatchObject({
      status: 'success',
      percentage: 100,
      current: 10,
      phase: null,
    })
  })
})

describe('the whole', () => {
  it('S2.33 is weighted by bytes; a node of unknown size counts as the average', () => {
    const big = open('big', { bytes: { percentage: 10, current: 90, total: 900, seq: 1 } })
    const small = settled('small', 'success', { current: 100, total: 100, percentage: 100 })
    expect(view([big, small])).toMatchObject({ progress: 19, current_bytes: 190, total_bytes: 1000 })
    expect(view([big, small, open('new')]).progress).toBeCloseTo((10 * 900 + 100 * 100) / 1500, 0)
    expect(view([open('a'), settled('b', 'success')]).progress).toBe(50)
    expect(view([settled('s', 'skipped'), settled('b', 'success')]).progress).toBe(100)
  })

  it('S2.33 never goes below the shown progress', () => {
    expect(viewOperation(operation([open('a')], { progress: 41.2 })).progress).toBe(41.2)
  })

  it('S2.33 names the file of the latest progress', () => {
    const rows = [open('a'), open('b')]
    const [older, newer] = [
      { fileName: 'old', receivedAt: 5, seq: 1 },
      { fileName: 'new', receivedAt: 6, seq: 1 },
    ]
    expect(view(rows, { a: newer, b: older }).file_name).toBe('new')
    expect(view(rows, { a: older, b: newer }).file_name).toBe('new')
    expect(viewOperation(operation(rows, { fileName: 'kept' })).file_name).toBe('kept')
  })

  it.each<[string, OperationNodeRecord[], string, string]>([
    ['S2.38 no nodes', [], 'failed', ''],
    ['one done', [settled('a', 'success')], 'succeeded', 'done'],
    ['one done, with a word', [settled('a', 'success', { message: 'already up to date' })], 'succeeded', 'already up to date'],
    [
      'two of three',
      [settled('a', 'success'), open('b'), settled('c', 'error', { error: 'x', errorCode: 'internal' })],
      'running',
      '2 of 3 nodes done; c: x',
    ],
    [
      'S2.12 a busy worker',
      [settled('a', 'success'), open('b', { how: { ...result, isOverdue: true } })],
      'background',
      'worker still installing in background: b; 1 of 2 nodes done',
    ],
    [
      'S2.11 busy workers are named, and do not hide the final error of another node',
      [
        ...['a', 'b', 'c', 'd'].map((name) => open(name, { how: { ...result, isOverdue: true } })),
        settled('e', 'error', { error: 'no space', errorCode: 'disk_full' }),
      ],
      'background',
      'worker still installing in background: a, b, c, and 1 more; 1 of 5 nodes done; e: no space',
    ],
    [
      'S2.12 a worker that was busy when it was last heard',
      [settled('a', 'success'), open('b', { how: { ...result, isOverdue: true }, node: { liveness: 'gone' } })],
      'background',
      '1 of 2 nodes done',
    ],
    [
      'S0.33 waiting for the next try is not final',
      [open('a', { how: { ...waiting, attempts: 1, lastFailure: failure } })],
      'background',
      '0 of 1 nodes done',
    ],
    ['an absent node', [open('a', { how: waiting, node: { liveness: 'gone' } })], 'background', '0 of 1 nodes done'],
    [
      'failed, on whom and why',
      [settled('a', 'success'), settled('b', 'error', { error: 'no such tag', errorCode: 'not_found' })],
      'failed',
      'b: no such tag',
    ],
    ['all skipped', [settled('a', 'skipped', { message: 'nothing for arm64' })], 'failed', 'a: nothing for arm64'],
    ['cancelled', [settled('a', 'cancelled', { message: 'superseded by operation op-2' })], 'cancelled', 'superseded by operation op-2'],
    [
      'many failures',
      ['a', 'b', 'c', 'd', 'e'].map((name) => settled(name, 'error', { error: 'no', errorCode: 'internal' })),
      'failed',
      'a: no; b: no; c: no; and 2 more',
    ],
  ])('%s', (_, nodes, state, message) => {
    expect(view(nodes)).toMatchObject({ state, message })
  })

  it('a code that a newer version wrote is shown as internal', () => {
    expect(view([settled('a', 'error', { error: 'x', errorCode: 'never_heard_of' })]).nodes[0]?.error_code).toBe('internal')
    expect(view([settled('a', 'error', { error: 'x', errorCode: 'rolled_back' })]).nodes[0]?.error_code).toBe('rolled_back')
  })
})

describe('an operation about a model', () => {
  const job = { outcome: null, message: '', current: 0, total: 0, cancelRequested: false, replicas: 1, loads: [] }
  const about = { kind: 'model.load' as const, backend: null, model: 'tiny' }
  const shownNode = (name: string, fields: object = {}): OperationNodeRecord => ({
    ...{
      nodeId: name,
      nodeName: name,
      ring: null,
      status: 'shown',
      shown: 'queued',
      cancelRequested: false,
      phase: null,
      fileName: '',
      nextRetryAt: null,
    },
    ...{ node: healthy, message: '', error: null, errorCode: null, attempts: 0, current: 0, total: 0, percentage: 0 },
    ...fields,
  })
  const show = (fields: Partial<OperationRecord>, nodes: OperationNodeRecord[] = []) =>
    viewOperation(operation(nodes, { ...about, job, ...fields }))

  it('S0.38 without nodes is its one job', () => {
    const running = { ...job, message: 'fetching', current: 50, total: 200 }
    expect(show({ kind: 'model.install', job: running, progress: 25 })).toMatchObject({
      ...{ kind: 'model.install', state: 'running', message: 'fetching', progress: 25, current_bytes: 50, total_bytes: 200, nodes: [] },
    })
    expect(show({ job: { ...running, cancelRequested: true } })).toMatchObject({ state: 'running', message: 'cancelling' })
    for (const outcome of ['succeeded', 'failed', 'cancelled'] as const)
      expect(show({ job: { ...job, outcome, message: 'why' }, progress: 25 })).toMatchObject({
        state: outcome,
        message: 'why',
        progress: outcome === 'succeeded' ? 100 : 25,
      })
  })

  it('goes on while its nodes are done and it is not', () => {
    expect(show({}, [settled('n', 'success')])).toMatchObject({ state: 'running' })
  })

  it.each<[string, object, object, string]>([
    [
      'as it was last said to be',
      { shown: 'downloading', phase: 'starting', percentage: 99.9 },
      { status: 'downloading', phase: 'starting', percentage: 99.9 },
      'running',
    ],
    [
      'as failed, with the next try',
      { shown: 'error', error: 'no', errorCode: 'disk_full', nextRetryAt: 60_000, attempts: 2 },
      { status: 'error', error: 'no', error_code: 'disk_full', next_retry_at: '1970-01-01T00:01:00.000Z', attempts: 2 },
      'background',
    ],
    [
      'as waiting while it is away',
      { shown: 'downloading', node: { ...healthy, liveness: 'left' } },
      { status: 'queued', message: 'node offline, will retry when healthy' },
      'background',
    ],
    [
      'as unknown when it was busy and is not heard',
      {
        shown: 'running_on_worker',
        message: 'still loading',
        node: { ...healthy, liveness: 'gone', lastSeenAt: '2026-01-01T12:00:00.000Z' },
      },
      { status: 'running_on_worker', message: 'node offline, last heard 2026-01-01T12:00:00.000Z; result unknown' },
      'background',
    ],
    ['as cancelled when it was removed', { node: null }, { status: 'cancelled', message: 'node removed' }, 'running'],
  ])('shows a node %s', (_, fields, want, state) => {
    const shown = show({}, [shownNode('n', fields)])
    expect(shown.nodes[0]).toMatchObject(want)
    expect(shown.state).toBe(state)
  })
})
