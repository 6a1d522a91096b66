import { OperationId, type OperationNode, type OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import {
  busyHint,
  canPause,
  canRetry,
  canTryNow,
  filterOperations,
  foremost,
  isCancelling,
  markOf,
  nodeMarkOf,
  nodesDone,
  noteOf,
  phaseText,
  ringsOf,
  sentenceOf,
  titleOf,
} from './operation-words.pure.ts'

const node = (fields: Partial<OperationNode> = {}): OperationNode => ({
  ...{ node_id: 'n-1', node_name: 'gpu-1', status: 'queued', phase: null, message: '', file_name: '', current: 0, total: 0 },
  ...{ percentage: 0, attempts: 0, next_retry_at: null, dead: false, ring: null, error: null, error_code: null, ...fields },
})
const operation = (fields: Partial<OperationView> = {}): OperationView => ({
  ...{ id: OperationId.parse('op-1'), kind: 'backend.install', backend: 'llama', model: null, state: 'running', message: '', progress: 0 },
  ...{ file_name: '', current_bytes: 0, total_bytes: 0, created_at: '', finished_at: null, requested_by: 'admin', nodes: [], ...fields },
})
const now = Date.parse('2026-01-01T12:00:00Z')
const inOneMinute = '2026-01-01T12:01:00Z'

describe('an operation', () => {
  it.each<[Partial<OperationView>, string]>([
    [{}, 'Install llama'],
    [{ kind: 'backend.upgrade' }, 'Upgrade llama'],
    [{ kind: 'backend.delete' }, 'Delete llama'],
    [{ kind: 'model.install', backend: null, model: 'tiny' }, 'Install model tiny'],
    [{ kind: 'model.load', backend: 'llama', model: 'tiny' }, 'Load model tiny'],
    [{ kind: 'model.delete', backend: null, model: null }, 'Delete model'],
  ])('%j has the title %s', (fields, title) => expect(titleOf(operation(fields))).toBe(title))

  it.each<[Partial<OperationView>, string, string]>([
    [{}, 'work', 'Running'],
    [{ state: 'background' }, 'wait', 'In the background'],
    [{ state: 'succeeded' }, 'good', 'Done'],
    [{ state: 'failed' }, 'bad', 'Failed'],
    [{ state: 'cancelled' }, 'idle', 'Cancelled'],
    [{ cancelling: true }, 'wait', 'Cancelling'],
    [{ nodes: [node({ cancelling: true }), node({ status: 'success' })] }, 'wait', 'Cancelling'],
    [{ nodes: [node({ cancelling: true }), node()] }, 'work', 'Running'],
    [{ state: 'cancelled', cancelling: true }, 'idle', 'Cancelled'],
    [{ paused_at: inOneMinute }, 'wait', 'Pausing'],
    [{ paused_at: inOneMinute, state: 'background' }, 'wait', 'Paused'],
    [{ paused_at: inOneMinute, cancelling: true }, 'wait', 'Cancelling'],
  ])('%j is marked %s %s', (fields, tone, word) => expect(markOf(operation(fields))).toMatchObject({ tone, word }))

  it.each<[Partial<OperationView>, boolean]>([
    [{}, true],
    [{ kind: 'model.install' }, true],
    [{ kind: 'model.load' }, false],
    [{ cancelling: true }, false],
    [{ state: 'failed' }, false],
  ])('%j can be paused: %s', (fields, want) => expect(canPause(operation(fields))).toBe(want))

  it.each<[Partial<OperationNode>, string]>([
    [{ status: 'error', next_retry_at: inOneMinute }, 'try now'],
    [{ status: 'error' }, 'retry'],
    [{ status: 'queued', paused: true }, ''],
  ])('a node %j has the action "%s"', (fields, want) => {
    expect(canTryNow(node(fields)) ? 'try now' : canRetry(node(fields)) ? 'retry' : '').toBe(want)
  })

  it('that has ended is not cancelling', () => {
    expect(isCancelling(operation({ state: 'succeeded', nodes: [node({ status: 'success', cancelling: true })] }))).toBe(false)
  })

  it.each<[Partial<OperationNode>[], string]>([
    [[], ''],
    [[{ status: 'success' }], '1 of 1 node'],
    [[{ status: 'success' }, { status: 'skipped' }, { status: 'downloading' }], '1 of 2 nodes'],
    [[{ status: 'error' }, { status: 'error', next_retry_at: inOneMinute }, { status: 'cancelled' }], '2 of 3 nodes'],
  ])('with %j is done on %s', (nodes, want) => expect(nodesDone(nodes.map(node))).toBe(want))
})

describe('a list of operations', () => {
  const running = operation()
  const background = operation({ id: OperationId.parse('op-2'), state: 'background' })
  const failing = operation({ state: 'background', nodes: [node({ status: 'error', next_retry_at: inOneMinute })] })
  it.each<[OperationView[], string]>([
    [[], 'No operations running.'],
    [[running], '1 operation running.'],
    [[running, running, background], '2 operations running, 1 in the background.'],
    [[running, background, background], '1 operation running, 2 in the background.'],
    [[background], '1 operation in the background.'],
    [[failing, background], '2 operations in the background. 1 node failed and will be retried.'],
  ])('%#: %s', (active, want) => expect(sentenceOf(active)).toBe(want))

  it('shows a running operation before one in the background', () => {
    expect([foremost([background, running]), foremost([background]), foremost([])]).toEqual([running, background, null])
  })

  it.each<[object, number]>([
    [{}, 2],
    [{ kind: '', search: ' ' }, 2],
    [{ kind: 'model.load' }, 1],
    [{ search: 'INSTALL llama' }, 1],
    [{ search: 'gpu-7' }, 1],
    [{ search: 'llama gpu-7' }, 0],
  ])('%j finds %d', (filter, count) => {
    const load = operation({ kind: 'model.load', backend: null, model: 'tiny', nodes: [node({ node_name: 'gpu-7' })] })
    expect(filterOperations([operation(), load], filter)).toHaveLength(count)
  })
})

describe('a node', () => {
  it.each<[OperationNode['status'], string, string]>([
    ['queued', 'idle', 'Queued'],
    ['downloading', 'work', 'Downloading'],
    ['running_on_worker', 'wait', 'Worker busy'],
    ['success', 'good', 'Done'],
    ['error', 'bad', 'Failed'],
    ['cancelled', 'idle', 'Cancelled'],
    ['skipped', 'idle', 'Skipped'],
  ])('S2.39 that is %s is marked %s: %s', (status, tone, word) => {
    expect(nodeMarkOf(node({ status }), 'backend.install')).toMatchObject({ tone, word })
  })

  it('S2.39 whose worker is busy explains it', () => {
    expect(nodeMarkOf(node({ status: 'running_on_worker' }), 'backend.install').hint).toBe(busyHint)
    expect(noteOf(node({ status: 'running_on_worker', message: 'worker still installing in background' }), now)).toContain(
      'no action needed',
    )
    expect(noteOf(node({ status: 'running_on_worker', message: 'cancelling', cancelling: true }), now)).toBe('cancelling')
  })

  it.each<[OperationView['kind'], OperationNode['phase'], string]>([
    ['backend.upgrade', 'extracting', 'Downloading'],
    ['backend.delete', null, 'Deleting'],
    ['model.delete', null, 'Deleting'],
    ['model.unload', null, 'Unloading'],
    ['model.load', 'downloading', 'Downloading'],
    ['model.load', 'starting', 'Loading'],
  ])('working on %s in phase %s is %s', (kind, phase, word) => {
    expect(nodeMarkOf(node({ status: 'downloading', phase }), kind).word).toBe(word)
  })

  it.each(['resolving', 'downloading', 'extracting', 'starting'] as const)('S2.49 shows the phase %s', (phase) =>
    expect(phaseText(node({ phase }))).toContain(phase),
  )

  const failed = { status: 'error', error: 'no such tag', error_code: 'not_found', attempts: 1 } as const
  it.each<[Partial<OperationNode>, string]>([
    [{ message: 'node offline, will retry when healthy' }, 'node offline, will retry when healthy'],
    [{ status: 'skipped', message: 'no image for darwin/arm64' }, 'no image for darwin/arm64'],
    [failed, 'no such tag (not_found)'],
    [{ ...failed, attempts: 3 }, 'no such tag (not_found); after 3 attempts'],
    [{ ...failed, next_retry_at: inOneMinute }, 'no such tag (not_found); 1 attempt, next in 1m'],
    [{ ...failed, next_retry_at: '2026-01-01T11:00:00Z', attempts: 2 }, 'no such tag (not_found); 2 attempts, next now'],
    [{ ...failed, dead: true, attempts: 10 }, 'no such tag (not_found); given up after 10 attempts'],
    [{ ...failed, error: 'rolled back: canary failed', error_code: 'rolled_back', attempts: 0 }, 'rolled back: canary failed'],
  ])('%j has the note: %s', (fields, want) => expect(noteOf(node(fields), now)).toBe(want))

  it('S2.43 can be retried after its final failure', () => {
    expect([canRetry(node(failed)), canRetry(node({ ...failed, next_retry_at: inOneMinute })), canRetry(node())]).toEqual([
      true,
      false,
      false,
    ])
  })
})

describe('rings', () => {
  const titles = (nodes: Partial<OperationNode>[]): string[] =>
    ringsOf(nodes.map(node)).map(({ title, progress }) => `${title}: ${progress}`)
  it.each<[string, Partial<OperationNode>[], string[]]>([
    ['without rings', [{}, {}], [': ']],
    ['without nodes', [], []],
    [
      'one after the other',
      [
        { ring: 2, message: 'waiting for ring 2', awaits_ring: true },
        { ring: 1, status: 'success' },
        { ring: 10, message: 'waiting for ring 10', awaits_ring: true },
        { status: 'success' },
      ],
      ['Without ring: done', 'Canary: done', 'Ring 2: waiting', 'Ring 10: waiting'],
    ],
    [
      'rolled back',
      [
        { ring: 1, status: 'error', error_code: 'rolled_back' },
        { ring: 2, status: 'error', error_code: 'internal' },
        { ring: 3, status: 'cancelled', message: 'rollout stopped' },
      ],
      ['Canary: rolled back', 'Ring 2: failed', 'Ring 3: rollout stopped'],
    ],
    [
      'in progress',
      [
        { ring: 1, status: 'success' },
        { ring: 1, status: 'downloading' },
      ],
      ['Canary: 1 of 2 done'],
    ],
    ['rolling back', [{ ring: 1, status: 'downloading', message: 'returning to 1.2', returning: true }], ['Canary: rolling back']],
  ])('%s', (_, nodes, want) => expect(titles(nodes)).toEqual(want))
})
