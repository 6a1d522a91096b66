import { NodeId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { candidate, inRam, ramOf, replica } from '../../test/placement-facts.ts'
import { chooseEviction, type EvictionRequest, type FullNode, type LiveReplica } from './room.pure.ts'

const full = (replicas: readonly LiveReplica[], over: Partial<FullNode> = {}, name = 'one'): FullNode =>
  candidate(name, { ...ramOf(100), replicas, ...over })
type Want = Readonly<{ priority?: number; need?: number }>
const asker = ({ priority = 0, need = 60 }: Want = {}): EvictionRequest => ({
  ...{ name: 'tiny', priority },
  memory: { cpu: inRam(need), gpu: { ram: 0, vram: need } },
})
const evict = (replicas: readonly LiveReplica[], over: Want = {}, node: Partial<FullNode> = {}) => {
  const nodes = [full(replicas, node)]
  return chooseEviction(asker(over), nodes, nodes)?.victims ?? null
}
const old = (over: Parameters<typeof replica>[0] = {}) => replica({ id: 'r-1', need: 80, ...over })

describe('a replica is evicted', () => {
  it.each<[string, Parameters<typeof replica>[0], Want]>([
    ['when it is idle', {}, {}],
    ['when its priority is lower, however busy', { inFlight: 5, unusedMs: 0, readyMs: 0 }, { priority: 1 }],
    ['when its model was never requested', { unusedMs: Infinity }, {}],
    ['when its model has more than its minimum', { min: 0, desired: 3 }, {}],
  ])('%s', (_, over, wanted) => {
    expect(evict([old(over)], wanted)).toEqual(['r-1'])
  })
})

describe('a replica stays', () => {
  it.each<[string, Parameters<typeof replica>[0], Want]>([
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
  it.each<[string, LiveReplica[], Want, string[]]>([
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

describe('with two kinds of memory', () => {
  const node = (replicas: readonly LiveReplica[]) => full(replicas, { vram: { total: 100, available: null }, device: 'gpu' })
  const request = { name: 'tiny', priority: 1, memory: { cpu: inRam(0), gpu: { ram: 55, vram: 55 } } }
  const on = (id: string, ram: number, vram: number) => old({ id, model: id, need: { ram, vram } })
  it.each<[string, LiveReplica[], string[] | null]>([
    ['one that frees both goes', [on('r-ram', 30, 0), on('r-both', 60, 60), on('r-vram', 0, 30)], ['r-both']],
    ['one of each kind goes', [on('r-ram', 80, 0), on('r-vram', 0, 80)], ['r-ram', 'r-vram']],
    ['one whose memory is of the other kind stays', [on('r-ram', 20, 0), on('r-vram', 0, 80)], ['r-vram']],
    ['none goes when one kind stays short', [on('r-ram', 80, 0), old({ id: 'r-max', need: { ram: 0, vram: 80 }, priority: 9 })], null],
    ['none goes that two others make unnecessary', [on('r-1', 35, 35), on('r-2', 50, 10), on('r-3', 10, 50)], ['r-2', 'r-3']],
  ])('%s', (_, replicas, want) => {
    const nodes = [node(replicas)]
    expect(chooseEviction(request, nodes, nodes)?.victims.toSorted() ?? null).toEqual(want)
  })
})
