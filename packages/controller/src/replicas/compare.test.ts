import { NodeId, ReplicaId, type ReplicaState } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { ReplicaRecord } from '../store/replicas.ts'
import { compareReplicas, type Finding, type ReplicaList } from './replicas.pure.ts'

const id = ReplicaId.parse('r-1')
const known = (state: ReplicaState, over: Partial<ReplicaRecord> = {}): ReplicaRecord => ({
  ...{
    id,
    model: 'tiny',
    revision: 'rev-1',
    ordinal: 0,
    slot: 0,
    nodeId: NodeId.parse('n-1'),
    nodeName: 'one',
    backend: 'llama',
    backendDigest: null,
  },
  ...{
    state,
    opId: 'ld-1',
    stamp: { incarnation: 'i-1', seq: 5 },
    createdAt: '',
    exitedAt: null,
    ageMs: 60_000,
    heardAt: null,
    heardMs: null,
    isReachable: true,
    isNodeDraining: false,
    hasLoad: true,
  },
  ...over,
})
const said = (state: ReplicaState | null, over: Partial<ReplicaList> = {}): ReplicaList => ({
  ...{ incarnation: 'i-1', seq: 6, ageMs: 0, replicas: state === null ? [] : [{ replica_id: id, state }] },
  ...over,
})

describe('the replica list of a node', () => {
  it.each<[string, ReplicaRecord[], ReplicaList, Finding['is'] | null]>([
    ['and is as known is no news', [known('ready')], said('ready'), null],
    ['as ready, and was starting, is ready', [known('starting')], said('ready'), 'ready'],
    [
      'as ready, by a worker begun anew that found it again, is there',
      [known('ready')],
      said('ready', { incarnation: 'i-2', seq: 1 }),
      'ready',
    ],
    ['as exited is', [known('ready')], said('exited'), 'exited'],
    ['as starting still is', [known('starting')], said('starting'), null],
    ['as draining, and is told to, drains', [known('draining')], said('ready'), null],
    ['not, and was ready, is gone', [known('ready')], said(null), 'exited'],
    ['not, and was told to go, is gone', [known('draining')], said(null), 'exited'],
    ['not, and was ready a moment ago, may have been listed before', [known('ready', { ageMs: 200 })], said(null), null],
    ['not, in a list as old as that, may have been listed before', [known('ready', { ageMs: 4_000 })], said(null, { ageMs: 3_500 }), null],
    ['not, in a list that is older than what is known, says nothing', [known('ready')], said(null, { seq: 5 }), null],
    ['not, by another process, is gone', [known('ready')], said(null, { incarnation: 'i-2', seq: 1 }), 'exited'],
    ['not, and is starting, is asked about by its load', [known('starting')], said(null), null],
    ['not, and nobody holds its load, is gone', [known('starting', { hasLoad: false })], said(null), 'exited'],
    [
      'not, and nobody holds its load since a moment ago, may be on its way',
      [known('starting', { hasLoad: false, ageMs: 9_000 })],
      said(null),
      null,
    ],
    ['W16 and is unknown is an orphan', [], said('ready'), 'orphan'],
    [
      'S1.13 and was started for a controller of the original is not ours to end',
      [],
      said(null, { replicas: [{ replica_id: ReplicaId.parse('abc'), state: 'ready' }] }),
      null,
    ],
    ['and is unknown and has exited is ignored', [], said('exited'), null],
    ['and has exited, as far as is known, says nothing more', [known('exited')], said('ready'), null],
  ])('%s', (_, rows, list, want) => {
    expect(compareReplicas(rows, list)).toEqual(want === null ? [] : [{ id, is: want }])
  })
})
