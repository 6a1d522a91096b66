import { NodeId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { candidate, replica } from '../../test/placement-facts.ts'
import { chooseEviction, type EvictionRequest, type FullNode, type LiveReplica } from './room.pure.ts'

const full = (replicas: readonly LiveReplica[], over: Partial<FullNode> = {}, name = 'one'): FullNode =>
  candidate(name, { pool: { kind: 'ram', total: 100, available: null }, replicas, ...over })
const asker = (over: Partial<EvictionRequest> = {}): EvictionRequest => ({ name: 'tiny', priority: 0, need: 60, ...over })
const evict = (replicas: readonly LiveReplica[], over: Partial<EvictionRequest> = {}, node: Partial<FullNode> = {}) => {
  const nodes = [full(replicas, node)]
  return chooseEviction(asker(over), nodes, nodes)?.victims ?? null
}
const old = (over: Parameters<typeof replica>[0] = {}) => replica({ id: 'r-1', need: 80, ...over })

describe('a replica is evicted', () => {
  it.each<[string, Parameters<typeof replica>[0], Partial<EvictionRequest>]>([
    ['when it is idle', {}, {}],
    ['when its priority is lower, however busy', { inFlight: 5, unusedMs: 0, readyMs: 0 }, { priority: 1 }],
    ['when its model was never requested', { unusedMs: Infinity }, {}],
    ['when its model has more than its minimum', { min: 0, desired: 3 }, {}],
  ])('%s', (_, over, wanted) => {
    expect(evict([old(over)], wanted)).toEqual(['r-1'])
  })
})

describe('a replica stays', () => {
  it.each<[string, Parameters<typeof replica>[0], Partial<EvictionRequest>]>([
    ['when its priority is higher', { priority: 1 }, {}],
    ['when a request is under way', { inFlight: 1 }, {}],
    ['G13 when its model was used just now', { unusedMs: 29_000 }, {}],
    ['G13 when it came up just now', { readyMs: 29_000 }, {}],
    ['when it is starting', { state: 'starting' }, { priority: 1 }],
    ['when it does not serve yet', { isServing: false }, { priority: 1 }],
    ['when it is its minimum', { min: 1 }, { priority: 9 }],
    ['W18 when one is on every node', { isSpread: true }, { priority: 9 }],
    ['when no load owns it', { hasLoad: false }, { priority: 9 }],
    ['when it is of the same model', { model: 'tiny', priority: -1 }, {}],
    ['when its end is not enough', { need: 40 }, { need: 120 }],
    ['when nothing is known of its size', { need: 0 }, { need: 120 }],
  ])('%s', (_, over, wanted) => {
    expect(evict([old(over)], wanted)).toBeNull()
  })

  it('as part of its minimum, when the other replicas of its model do not serve yet', () => {
    const starting = candidate('two', { replicas: [old({ id: 'r-2', state: 'starting', min: 1, desired: 2 })] })
    const node = full([old({ min: 1, desired: 2 })])
    expect(chooseEviction(asker({ priority: 1 }), [node], [node, starting])).toBeNull()
    const serving = candidate('two', { replicas: [old({ id: 'r-2', min: 1, desired: 2 })] })
    expect(chooseEviction(asker({ priority: 1 }), [node], [node, serving])?.victims).toEqual(['r-1'])
  })

  it('when there are two only because one replaces the other', () => {
    const both = { min: 1, desired: 1, need: 40 }
    expect(evict([old(both), old({ ...both, id: 'r-2' })], { priority: 1 })).toBeNull()
  })
})

describe('among several', () => {
  it.each<[string, LiveReplica[], Partial<EvictionRequest>, string[]]>([
    ['one goes, not two', [old({ id: 'r-1', need: 30, model: 'm1' }), old({ id: 'r-2', need: 60, model: 'm2' })], { need: 60 }, ['r-2']],
    [
      'the one of the lowest priority goes',
      [old({ priority: 1, model: 'm1' }), old({ id: 'r-2', model: 'm2' })],
      { priority: 2, need: 20 },
      ['r-2'],
    ],
    [
      'the one that was longest unused goes',
      [old({ need: 50, model: 'm1' }), old({ id: 'r-2', need: 50, model: 'm2', unusedMs: 90_000 })],
      { need: 50 },
      ['r-2'],
    ],
    [
      'two of a low priority go, and not one of a higher',
      [old({ need: 20, model: 'm1' }), old({ id: 'r-2', need: 20, model: 'm2' }), old({ id: 'r-3', need: 60, priority: 1, model: 'm3' })],
      { priority: 2, need: 40 },
      ['r-1', 'r-2'],
    ],
    [
      'as many go as can of one model',
      [old({ need: 40, min: 1, desired: 2 }), old({ id: 'r-2', need: 40, min: 1, desired: 2 })],
      { need: 60 },
      ['r-1'],
    ],
  ])('%s', (_, replicas, wanted, victims) => {
    expect(evict(replicas, wanted)).toEqual(victims)
  })

  it('one replica less is enough when memory is not short', () => {
    expect(
      evict([old({ need: 10, unusedMs: 40_000 }), old({ id: 'r-2', need: 10, model: 'm2' })], { need: 20 }, { maxReplicas: 2 }),
    ).toEqual(['r-2'])
  })

  it('no replica is evicted where another is already ending', () => {
    expect(evict([old({ state: 'draining', need: 30 }), old({ id: 'r-2', need: 40, model: 'm2' })])).toEqual([])
  })
})

it('the node with the least loss is chosen', () => {
  const nodes = [
    full([old({ priority: 1 })], {}, 'one'),
    full([old({ id: 'r-2', need: 40, model: 'm2' }), old({ id: 'r-3', need: 40, model: 'm3' })], {}, 'two'),
    full([old({ id: 'r-4', model: 'm4' })], {}, 'three'),
    full([old({ id: 'r-5', model: 'm5' })], {}, 'four'),
  ]
  expect(chooseEviction(asker({ priority: 2, need: 100 }), nodes, nodes)).toEqual({ nodeId: NodeId.parse('three'), victims: ['r-4'] })
})
