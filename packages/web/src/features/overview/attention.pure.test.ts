import type { ModelView, NodeView, OperationNode, OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { findProblems, trackShortfalls, type FleetState } from './attention.pure.ts'

const disk = (available_disk: number | null, total_disk: number | null = 1e12) => ({ resources: { available_disk, total_disk } })
const node = (name: string, changes: object = {}): NodeView =>
  ({ id: `id-${name}`, name, status: 'healthy', status_reason: '', ...disk(5e11), ...changes }) as unknown as NodeView
const model = (name: string, changes: object = {}): ModelView =>
  ({ name, state: 'ready', replicas_ready: 1, replicas_desired: 1, failure: null, ...changes }) as unknown as ModelView
const dead = (name: string, changes: object = {}): OperationNode =>
  ({
    node_id: `id-${name}`,
    node_name: name,
    dead: true,
    attempts: 10,
    error: 'no space',
    message: '',
    ...changes,
  }) as unknown as OperationNode
const operation = (id: string, nodes: readonly OperationNode[], changes: object = {}): OperationView =>
  ({ id, kind: 'backend.install', backend: 'llama', model: null, nodes, ...changes }) as unknown as OperationView
const state = (changes: Partial<FleetState>): FleetState => ({
  ...{ nodes: [node('a')], models: [], operations: [], isBusOpen: false, shortSince: new Map(), now: 100_000 },
  ...changes,
})
const failure = { message: 'wrong hash.', next_retry_at: null }

describe('a problem', () => {
  it.each<[string, Partial<FleetState>, (readonly [string, string])[]]>([
    ['none', {}, []],
    [
      'a node that waits for approval',
      { nodes: [node('a', { status: 'pending' })] },
      [['a is waiting for approval. Approve only machines that you know.', 'approve']],
    ],
    [
      'an operation out of attempts',
      { operations: [operation('o', [dead('a')])] },
      [['Install of llama failed on a after 10 attempts: no space', 'retry']],
    ],
    [
      'an operation out of attempts on several nodes',
      { nodes: [node('a'), node('b')], operations: [operation('o', [dead('a'), dead('b')])] },
      [['Install of llama failed on 2 nodes after 10 attempts: no space', 'retry']],
    ],
    [
      'not one with a newer operation for the same backend',
      { operations: [operation('new', [dead('a', { dead: false })]), operation('old', [dead('a')])] },
      [],
    ],
    [
      'one with a newer operation for another backend',
      { operations: [operation('new', [dead('a', { dead: false })], { backend: 'x' }), operation('old', [dead('a')])] },
      [[expect.stringContaining('llama'), 'retry']],
    ],
    ['not a dismissed one', { operations: [operation('o', [dead('a')], { dismissed_at: 'then' })] }, []],
    [
      'not an older one behind a dismissed one',
      { operations: [operation('new', [dead('a')], { dismissed_at: 'then' }), operation('old', [dead('a')])] },
      [],
    ],
    ['not one on a removed node', { operations: [operation('o', [dead('gone')])] }, []],
    [
      'a model that failed',
      { models: [model('m', { state: 'failed', failure, replicas_ready: 0 })] },
      [['m failed to load: wrong hash. No automatic retry.', 'load']],
    ],
    [
      'a model with an automatic retry',
      { models: [model('m', { state: 'failed', failure: { ...failure, next_retry_at: 'soon' } })] },
      [['m failed to load: wrong hash.', 'load']],
    ],
    [
      'an offline node',
      { nodes: [node('a', { status: 'offline', status_reason: 'silent for 2 min.' })] },
      [['a is offline: silent for 2 min.', 'open_node']],
    ],
    ['an unhealthy node', { nodes: [node('a', { status: 'unhealthy' })] }, [['a is unhealthy.', 'open_node']]],
    ['not a node that was just approved', { nodes: [node('a', { status: 'unhealthy', liveness: 'new' })] }, []],
    [
      'a node that fell silent',
      { nodes: [node('a', { status: 'unhealthy', liveness: 'silent', status_reason: 'no heartbeat' })] },
      [['a is unhealthy: no heartbeat.', 'open_node']],
    ],
    ['not a draining node', { nodes: [node('a', { status: 'draining' })] }, []],
    [
      'a disk with less than a tenth free',
      { nodes: [node('a', disk(9e10))] },
      [['a is low on disk space: 90 GB of 1 TB free.', 'open_node']],
    ],
    [
      'a disk with less than 5 GB free',
      { nodes: [node('a', disk(4e9, 1e10))] },
      [['a is low on disk space: 4 GB of 10 GB free.', 'open_node']],
    ],
    ['a disk of unknown size', { nodes: [node('a', disk(4e9, null))] }, [['a is low on disk space: 4 GB free.', 'open_node']]],
    ['not an unknown disk', { nodes: [node('a', disk(null))] }, []],
    [
      'not the last known disk of an offline node',
      { nodes: [node('a', { status: 'offline', ...disk(1) })] },
      [['a is offline.', 'open_node']],
    ],
    [
      'a model with too few replicas for long',
      { models: [model('m', { replicas_desired: 2 })], shortSince: new Map([['m', 85_000]]) },
      [['m has 1 of 2 replicas ready.', 'open_model']],
    ],
    [
      'not one with too few replicas since just now',
      { models: [model('m', { replicas_desired: 2 })], shortSince: new Map([['m', 85_001]]) },
      [],
    ],
    ['not one without a recorded time', { models: [model('m', { replicas_desired: 2 })] }, []],
    ['an open bus', { isBusOpen: true }, [[expect.stringContaining('The bus is open'), 'secure_bus']]],
  ])('%s', (_, given, want) => expect(findProblems(state(given)).map(({ text, remedy }) => [text, remedy.type])).toEqual(want))

  it('is sorted by urgency and has a unique key', () => {
    const all = findProblems(
      state({
        nodes: [node('off', { status: 'offline' }), node('new', { status: 'pending' }), node('full', disk(1)), node('a')],
        models: [model('m', { state: 'failed', failure }), model('s', { replicas_desired: 3 })],
        operations: [operation('o', [dead('a')])],
        isBusOpen: true,
        shortSince: new Map([['s', 0]]),
      }),
    )
    expect(all.map(({ remedy }) => remedy.type)).toEqual(['approve', 'retry', 'load', 'open_node', 'open_node', 'open_model', 'secure_bus'])
    expect(new Set(all.map(({ key }) => key)).size).toBe(all.length)
  })

  it('is counted beyond the limit', () => {
    const nodes = Array.from({ length: 500 }, (_, at) => node(`n${at}`, { status: 'offline' }))
    const all = findProblems(state({ nodes }))
    expect(all).toHaveLength(6)
    expect(all.at(-1)).toMatchObject({ text: 'And 495 more.', remedy: { type: 'open_page', page: '/nodes' } })
  })
})

describe('trackShortfalls', () => {
  const short = model('m', { replicas_desired: 2 })
  it.each<[string, [string, number][], readonly ModelView[], [string, number][]]>([
    ['records the time', [], [short], [['m', 9]]],
    ['keeps the time', [['m', 1]], [short], [['m', 1]]],
    ['drops a model that recovered', [['m', 1]], [model('m')], []],
    ['ignores a failed model', [], [model('m', { state: 'failed', replicas_ready: 0 })], []],
  ])('%s', (_, before, models, want) => expect([...trackShortfalls(new Map(before), models, 9)]).toEqual(want))

  it('returns the same map when nothing changed', () => {
    const before = new Map([['m', 1]])
    expect(trackShortfalls(before, [short], 9)).toBe(before)
  })
})
