import { NodeId, ReplicaId } from '@muster/protocol'
import { expect, it } from 'vitest'
import type { ReplicaRecord } from '../store/replicas.ts'
import { viewReplica } from './replicas.pure.ts'
import { createSilenceTicks } from './silence-ticks.ts'

const heardAt = '2026-01-01T00:00:00.000Z'
const record = (changes: Partial<ReplicaRecord> = {}): ReplicaRecord => ({
  ...{ id: ReplicaId.parse('r-1'), model: 'tiny', revision: 'r', ordinal: 0, slot: 0, nodeId: NodeId.parse('n-1'), nodeName: 'a' },
  ...{
    backend: 'llama',
    backendDigest: null,
    state: 'ready',
    opId: null,
    stamp: null,
    createdAt: heardAt,
    exitedAt: null,
    ageMs: 1,
    heardAt,
    heardMs: 100,
  },
  ...{ isReachable: true, isNodeDraining: false, hasLoad: true },
  ...changes,
})
const facts = { inFlight: () => 3, rotationNote: () => null, unknownAfterMs: 8_500 }

it.each<[string, Partial<ReplicaRecord>, object]>([
  ['of a node that reports is known', {}, { state: 'ready', reachable: true, unknown_since: null }],
  [
    'of a silent node is unknown since its last heartbeat',
    { heardMs: 8_501 },
    { state: 'ready', reachable: false, unknown_since: heardAt },
  ],
  [
    'that starts on a silent node is unknown too',
    { heardMs: 8_501, state: 'starting' },
    { state: 'starting', reachable: false, unknown_since: heardAt },
  ],
  ['of a node whose heartbeat is late is known', { heardMs: 8_500 }, { reachable: true, unknown_since: null }],
  ['of a node without a heartbeat so far is known', { heardAt: null, heardMs: null }, { reachable: true, unknown_since: null }],
  ['that exited is known for ever', { heardMs: 1e9, state: 'exited' }, { reachable: false, in_flight: 0, unknown_since: null }],
])('the state of a replica %s', (_, changes, view) => {
  expect(viewReplica(record(changes), facts)).toMatchObject(view)
})

it('a replica that is out of rotation shows since when and why, until it exits', () => {
  const note = { since: heardAt, reason: 'its requests fail' }
  const views = (['ready', 'exited'] as const).map((state) => viewReplica(record({ state }), { ...facts, rotationNote: () => note }))
  expect(views.map((view) => view.out_of_rotation)).toEqual([note, null])
})

it('pages get the replicas of a node when it falls silent, and when it reports again', async () => {
  let now = 0
  const ticked: string[] = []
  const ticks = createSilenceTicks({
    ...{ unknownAfterMs: 8_500, clock: { monotonic: () => now }, replicas: { listOfNode: async () => [record()] } },
    tick: (ids) => void ticked.push(`${now} ${ids.join()}`),
  })
  const node = NodeId.parse('n-1')
  for (const [at, reported] of [
    [0, [node]],
    [8_500, []],
    [9_000, []],
    [10_000, []],
    [11_000, [node]],
    [12_000, [node]],
  ] as const) {
    now = at
    ticks.note(reported)
    await Promise.resolve()
    await Promise.resolve()
  }
  expect(ticked).toEqual(['9000 r-1', '11000 r-1'])
})
