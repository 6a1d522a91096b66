import type { ModelView, NodeView, OperationNode, OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { needsAttention, noteShort, type FleetWorld } from './attention.pure.ts'

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
const world = (changes: Partial<FleetWorld>): FleetWorld => ({
  ...{ nodes: [node('a')], models: [], operations: [], isBusOpen: false, shortSince: new Map(), now: 100_000 },
  ...changes,
})
const failure = { message: 'wrong hash.', next_retry_at: null }

describe('what needs somebody', () => {
  it.each<[string, Partial<FleetWorld>, (readonly [string, string])[]]>([
    ['nothing', {}, []],
    [
      'a node that asks to join',
      { nodes: [node('a', { status: 'pending' })] },
      [['a asks to join. Its key is its own: approve it if you know the machine.', 'approve']],
    ],
    [
      'a wish that was given up',
      { operations: [operation('o', [dead('a')])] },
      [['The install of llama was given up on a after 10 attempts: no space', 'retry']],
    ],
    [
      'a wish that was given up on several',
      { nodes: [node('a'), node('b')], operations: [operation('o', [dead('a'), dead('b')])] },
      [['The install of llama was given up on 2 nodes after 10 attempts: no space', 'retry']],
    ],
    [
      'not one about which something newer was wished',
      { operations: [operation('new', [dead('a', { dead: false })]), operation('old', [dead('a')])] },
      [],
    ],
    [
      'one that is older than a wish about something else',
      { operations: [operation('new', [dead('a', { dead: false })], { backend: 'x' }), operation('old', [dead('a')])] },
      [[expect.stringContaining('llama'), 'retry']],
    ],
    ['not one on a node that is gone', { operations: [operation('o', [dead('gone')])] }, []],
    [
      'a model that failed',
      { models: [model('m', { state: 'failed', failure, replicas_ready: 0 })] },
      [['m failed to load: wrong hash. It is not tried again by itself.', 'load']],
    ],
    [
      'a model that is tried again',
      { models: [model('m', { state: 'failed', failure: { ...failure, next_retry_at: 'soon' } })] },
      [['m failed to load: wrong hash.', 'load']],
    ],
    [
      'a node that is away',
      { nodes: [node('a', { status: 'offline', status_reason: 'silent for 2 min.' })] },
      [['a is offline: silent for 2 min.', 'open_node']],
    ],
    ['a node that is not well', { nodes: [node('a', { status: 'unhealthy' })] }, [['a is unhealthy.', 'open_node']]],
    ['not a node that is drained', { nodes: [node('a', { status: 'draining' })] }, []],
    [
      'a disk with less than a tenth',
      { nodes: [node('a', disk(9e10))] },
      [['The disk of a is almost full: 90 GB of 1 TB are free.', 'open_node']],
    ],
    [
      'a disk with less than 5 GB',
      { nodes: [node('a', disk(4e9, 1e10))] },
      [['The disk of a is almost full: 4 GB of 10 GB are free.', 'open_node']],
    ],
    [
      'a disk of which only that is known',
      { nodes: [node('a', disk(4e9, null))] },
      [['The disk of a is almost full: 4 GB are free.', 'open_node']],
    ],
    ['not a disk of which nothing is known', { nodes: [node('a', disk(null))] }, []],
    [
      'not a disk as it was before its node went',
      { nodes: [node('a', { status: 'offline', ...disk(1) })] },
      [['a is offline.', 'open_node']],
    ],
    [
      'a model that is short of replicas for long',
      { models: [model('m', { replicas_desired: 2 })], shortSince: new Map([['m', 85_000]]) },
      [['m has 1 of 2 replicas.', 'open_model']],
    ],
    ['not one that has just become so', { models: [model('m', { replicas_desired: 2 })], shortSince: new Map([['m', 85_001]]) }, []],
    ['not one of which that is not known', { models: [model('m', { replicas_desired: 2 })] }, []],
    ['a bus that is open', { isBusOpen: true }, [[expect.stringContaining('The bus is open'), 'secure_bus']]],
  ])('%s', (_, given, want) => expect(needsAttention(world(given)).map(({ text, remedy }) => [text, remedy.type])).toEqual(want))

  it('comes in order of urgency, each with a key of its own', () => {
    const all = needsAttention(
      world({
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

  it('is counted where it is much', () => {
    const nodes = Array.from({ length: 500 }, (_, at) => node(`n${at}`, { status: 'offline' }))
    const all = needsAttention(world({ nodes }))
    expect(all).toHaveLength(6)
    expect(all.at(-1)).toMatchObject({ text: 'And 495 more of the same kind.', remedy: { type: 'open_page', page: '/nodes' } })
  })
})

describe('since when a model is short of replicas', () => {
  const short = model('m', { replicas_desired: 2 })
  it.each<[string, [string, number][], readonly ModelView[], [string, number][]]>([
    ['is noted', [], [short], [['m', 9]]],
    ['stays', [['m', 1]], [short], [['m', 1]]],
    ['is forgotten when it is not so', [['m', 1]], [model('m')], []],
    ['is not noted of one that failed', [], [model('m', { state: 'failed', replicas_ready: 0 })], []],
  ])('%s', (_, before, models, want) => expect([...noteShort(new Map(before), models, 9)]).toEqual(want))

  it('is the same map when nothing changed', () => {
    const before = new Map([['m', 1]])
    expect(noteShort(before, [short], 9)).toBe(before)
  })
})
