import { ModelName, NodeId, OperationId, ReplicaId, type Load } from '@muster/protocol'
import { expect, it } from 'vitest'
import { fateOf } from './replicas.pure.ts'

const common = {
  model: ModelName.parse('tiny'),
  purpose: 'serve' as const,
  ordinal: 0,
  revision: 'rev-1',
  epoch: 1,
  attempts: 0,
  pin: null,
  needsCheck: false,
  isRoomMade: false,
  note: '',
  lease: null,
}
const [own, nodeId] = [NodeId.parse('n-1'), NodeId.parse('n-2')]
const waiting: Load = { ...common, state: 'waiting', nextAt: 0 }
const starting: Load = {
  ...common,
  state: 'starting',
  nodeId,
  opId: OperationId.parse('o'),
  replicaId: ReplicaId.parse('r-2'),
  signAt: 0,
  nextAt: 0,
}
const failed: Load = {
  ...common,
  state: 'failed',
  failure: { code: 'no_capacity', retry: 'backoff', message: 'no' },
  failedAt: 0,
  nextAt: 1,
  nodeId: null,
}
const stage: Load = { ...waiting, purpose: 'stage' }

const left = { revision: 'rev-1', opId: 'ld-1', nodeId: own, state: 'ready', isNodeDraining: false } as const

it.each<[string, Load[], string]>([
  ['goes when its model is gone, or wants none', [], 'drain'],
  ['goes when only its files are wanted', [stage], 'drain'],
  ['stays when its slot is open', [waiting], 'return'],
  ['stays when its slot found no other place', [failed], 'return'],
  ['goes when another one has its slot', [starting], 'drain'],
  ['waits for the end of a load that it may be in the way of', [{ ...starting, nodeId: own }], 'wait'],
  [
    'takes the slot that is open, whatever starts beside it',
    [
      { ...starting, nodeId: own },
      { ...waiting, ordinal: 1 },
    ],
    'return',
  ],
  ['goes when a load of another revision starts beside it', [{ ...starting, nodeId: own, revision: 'rev-2' }], 'drain'],
  ['takes the slot that is open', [starting, { ...waiting, ordinal: 1 }], 'return'],
  ['goes when its revision is not wanted any more', [{ ...waiting, revision: 'rev-2' }], 'drain'],
])('a replica that nobody holds %s', (_, loads, want) => {
  const fate = fateOf(left, loads)
  expect(fate.do).toBe(want)
  if (fate.do === 'return') expect(fate.to).toBe(loads.find(({ state }) => state !== 'starting'))
})

it.each<[string, Partial<Parameters<typeof fateOf>[0]>, Load[], string]>([
  ['serves on when its slot is open', {}, [waiting], 'return'],
  ['that only starts is of no use there', { state: 'starting' }, [waiting], 'wait'],
  ['goes when its slot is taken', {}, [starting], 'drain'],
])('a replica that nobody holds on a node that is drained %s', (_, over, loads, want) => {
  expect(fateOf({ ...left, isNodeDraining: true, ...over }, loads).do).toBe(want)
})
