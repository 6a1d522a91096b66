import { ModelName, NodeId, OperationId, ReplicaId, stepLoad, type Failure, type Load } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { Placement } from '../placement/placement.pure.ts'
import { decideLoad, eventOfRefusal, eventOfStatus, replicasOf, type Decision, type World } from './loads.pure.ts'

const [nodeId, opId, replicaId] = [NodeId.parse('n-1'), OperationId.parse('ld-1'), ReplicaId.parse('r-1')]
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
const waiting: Load = { ...common, state: 'waiting', nextAt: 0 }
const installing: Load = { ...common, state: 'installing', nodeId, installId: opId, nextAt: 0 }
const starting = { ...common, state: 'starting', nodeId, opId, replicaId, signAt: 0, nextAt: 0 } as const satisfies Load
const ready: Load = { ...common, state: 'ready', nodeId, opId, replicaId, readyAt: 0 }
const failed: Load = {
  ...common,
  ...{ state: 'failed', failure: { code: 'no_capacity', retry: 'backoff', message: 'no' }, failedAt: 0, nextAt: 0, nodeId: null },
}
const soft: Failure = { code: 'unavailable', retry: 'backoff', message: 'no answer' }
const returned = { type: 'returned', nodeId, opId, replicaId, isReady: true } as const
const places = (over: object): Placement => ({
  nodes: [
    {
      node_id: nodeId,
      node_name: 'one',
      eligible: true,
      reason: '',
      score: 1,
      hasBackend: true,
      installId: null,
      excludedBy: null,
      isAwaited: false,
      ...over,
    },
  ],
  eviction: null,
})
const arriving = places({ eligible: false, reason: 'it has not reported yet', excludedBy: 'status', isAwaited: true })
const short = places({ eligible: false, reason: 'it is full', excludedBy: 'memory' })
const [otherId, victim] = [NodeId.parse('n-2'), ReplicaId.parse('r-9')]
const world = (over: Partial<World> = {}): World => ({
  ...{
    model: { name: common.model, revision: 'rev-1', isWanted: true },
    isNodeHealthy: true,
    placement: places({}),
    returned: null,
    old: null,
    isSpare: false,
    install: null,
    isAssembling: false,
  },
  ...over,
})

describe('the next step of a load', () => {
  it.each<[string, Load, Partial<World>, Decision | object]>([
    ['whose model is gone', ready, { model: null }, { do: 'step', event: { type: 'unwanted' } }],
    ['that nobody wants', ready, { model: { name: common.model, revision: 'rev-1', isWanted: false } }, { event: { type: 'unwanted' } }],
    [
      'of another revision',
      starting,
      { model: { name: common.model, revision: 'rev-2', isWanted: true } },
      { event: { type: 'revision_changed' } },
    ],
    ['with a node that has the backend', waiting, {}, { do: 'start', nodeId }],
    [
      'with a node whose disk looks too small',
      waiting,
      { placement: places({ warning: 'small' }) },
      { do: 'start', nodeId, warning: 'small' },
    ],
    ['with a node that lacks the backend', waiting, { placement: places({ hasBackend: false }) }, { do: 'install', nodeId }],
    [
      'with a node where the backend is being installed',
      waiting,
      { placement: places({ hasBackend: false, installId: opId }) },
      { do: 'step', event: { type: 'install_submitted', nodeId, installId: opId } },
    ],
    [
      'of files alone, with a node where the backend is being installed',
      { ...waiting, purpose: 'stage' },
      { placement: places({ hasBackend: false, installId: opId }) },
      { do: 'start' },
    ],
    [
      'of files alone, with a node that lacks the backend',
      { ...waiting, purpose: 'stage' },
      { placement: places({ hasBackend: false }) },
      { do: 'start' },
    ],
    [
      'without a node',
      waiting,
      { placement: places({ eligible: false, reason: 'it is draining' }) },
      { event: { failure: { code: 'no_capacity', message: expect.stringContaining('it is draining') } } },
    ],
    [
      'that is pinned to a node where it cannot run',
      { ...waiting, pin: nodeId },
      { placement: places({ eligible: false, excludedBy: 'status' }) },
      { do: 'step', event: { type: 'unpinned' } },
    ],
    ['that has to be on a node that is gone', { ...waiting, pin: otherId }, { placement: short }, { event: { type: 'unpinned' } }],
    [
      'without room, and others that may go',
      waiting,
      { placement: { ...short, eviction: { nodeId, victims: [victim] } } },
      { do: 'evict', nodeName: 'one', victims: [victim] },
    ],
    [
      'without room, where something goes already',
      waiting,
      { placement: { ...short, eviction: { nodeId, victims: [] } } },
      { event: { type: 'room_requested', made: null } },
    ],
    [
      'without room, and nothing that may go',
      waiting,
      { placement: short },
      { event: { type: 'failed', failure: { code: 'no_capacity' } } },
    ],
    [
      'without room, of which as many others serve as are desired: nothing ends for it',
      { ...waiting, pin: nodeId },
      { placement: { ...short, eviction: { nodeId, victims: [victim] } }, isSpare: true },
      { do: 'step', event: { type: 'unwanted' } },
    ],
    [
      'without room beside the one whose place it takes',
      { ...waiting, pin: nodeId },
      { placement: short, old: { ordinal: 3, nodeId, ends: 'now' } },
      {
        do: 'recreate',
        old: { ordinal: 3 },
        note: 'not enough memory for two replicas on one: the old replica was stopped first (recreate)',
      },
    ],
    [
      'without room beside the one whose place it takes, and others that may go: its own goes first',
      waiting,
      { placement: { ...short, eviction: { nodeId, victims: [victim] } }, old: { ordinal: 3, nodeId, ends: 'now' } },
      { do: 'recreate', old: { ordinal: 3 } },
    ],
    [
      'without room beside the one whose place it takes, while another new one is on its way: others stay',
      waiting,
      { placement: { ...short, eviction: { nodeId, victims: [victim] } }, old: { ordinal: 3, nodeId, ends: 'soon' } },
      { event: { type: 'failed', failure: { code: 'no_capacity' } } },
    ],
    [
      'without room beside one that has to serve on, and others that may go',
      waiting,
      { placement: { ...short, eviction: { nodeId, victims: [victim] } }, old: { ordinal: 3, nodeId, ends: 'not' } },
      { do: 'evict' },
    ],
    [
      'that has to be beside one that has to serve on, without room',
      { ...waiting, pin: nodeId },
      { placement: short, old: { ordinal: 3, nodeId, ends: 'not' } },
      { event: { type: 'failed', failure: { code: 'no_capacity' } } },
    ],
    [
      'that has to be where others have the room, and nothing goes for it',
      { ...failed, pin: nodeId },
      { placement: short },
      { do: 'step', event: { type: 'unpinned' } },
    ],
    [
      'that has to be where something goes already',
      { ...waiting, pin: nodeId },
      { placement: { ...short, eviction: { nodeId, victims: [] } } },
      { event: { type: 'room_requested' } },
    ],
    ['with a replica that is back', waiting, { returned }, { do: 'step', event: returned }],
    ['with a replica that is back, and no other node', waiting, { returned, placement: places({ eligible: false }) }, { event: returned }],
    ['with a replica that is back, after a failure', failed, { returned }, { do: 'step', event: returned }],
    ['after a failure', failed, {}, { do: 'start', nodeId }],
    ['of which it is not known where it could go', waiting, { placement: soft }, { event: { type: 'failed', failure: soft } }],
    ['whose backend is still being assembled', waiting, { placement: soft, isAssembling: true }, { event: { type: 'looked' } }],
    ['whose only node is on its way', waiting, { placement: arriving }, { do: 'step', event: { type: 'looked' } }],
    ['whose only node is on its way, after a failure', failed, { placement: arriving }, { event: { type: 'failed' } }],
    ['whose backend is there, whatever is being assembled', waiting, { isAssembling: true }, { do: 'start' }],
    ['whose backend is being installed', installing, { install: { kind: 'open' } }, { event: { type: 'looked' } }],
    ['whose backend is installed', installing, { install: { kind: 'done' } }, { event: { type: 'installed' } }],
    [
      'whose backend cannot be installed',
      installing,
      { install: { kind: 'failed', failure: soft } },
      { event: { type: 'install_failed', failure: soft } },
    ],
    ['whose install somebody took back', installing, { install: { kind: 'gone' } }, { event: { type: 'install_gone' } }],
    ['that is quiet', starting, {}, { do: 'query' }],
    ['whose node is away', starting, { isNodeHealthy: false }, { event: { type: 'node_away' } }],
    ['that is ready', ready, {}, { do: 'nothing' }],
    ['that is ready, of another revision', ready, { model: { name: common.model, revision: 'rev-2', isWanted: true } }, { do: 'nothing' }],
  ])('%s', (_, load, over, want) => {
    expect(decideLoad(load, world(over))).toMatchObject(want)
    expect(decideLoad(load, world(over))).toEqual(decideLoad(load, world(over)))
  })
})

it('a step that was taken is not taken twice', () => {
  const decision = decideLoad(installing, world({ install: { kind: 'done' } }))
  if (decision.do !== 'step') throw new Error('it is a step')
  const after = stepLoad(installing, decision.event, { now: 1, chance: 0 })
  if (after === null || after === 'gone') throw new Error('it goes on')
  expect(stepLoad(after, decision.event, { now: 2, chance: 0 })).toBeNull()
})

describe('W30 the changes of its replica', () => {
  it.each([
    ['unwanted', { type: 'unwanted' }, 'drain'],
    ['given up', { type: 'given_up', failure: soft }, 'drain'],
    ['of a node that is away', { type: 'node_away' }, 'release'],
    ['failed', { type: 'failed', failure: soft }, 'exit'],
    ['refused because of another one', { type: 'slot_taken', againInMs: 1 }, 'exit'],
    ['ready', { type: 'ready' }, 'ready'],
    ['looked at', { type: 'looked', againInMs: 1 }, null],
  ] as const)('%s', (_, event, want) => {
    expect(replicasOf(starting, event, {}).map((change) => [change.id, change.do])).toEqual(want === null ? [] : [[replicaId, want]])
  })
})

describe('a load that its worker refuses', () => {
  const taken: Failure = { code: 'conflict', retry: 'backoff', message: 'slot 0 of tiny is taken on this node by the replica r-0' }
  const left = { id: ReplicaId.parse('r-0'), model: 'tiny', slot: 1, hasLoad: false }
  it.each<[string, Failure, (typeof left)[], string]>([
    ['has not failed when a replica that nobody holds may be in its way still', taken, [left], 'slot_taken'],
    ['has failed when a load has the one in its way', taken, [{ ...left, hasLoad: true }], 'failed'],
    [
      'has failed when nothing is known of the one in its way',
      taken,
      [
        { ...left, model: 'other' },
        { ...left, id: replicaId },
        { ...left, slot: 0 },
      ],
      'failed',
    ],
    ['has failed when its id was used before', { ...taken, retry: 'never' }, [left], 'failed'],
    ['has failed for any other reason', soft, [left], 'failed'],
  ])('%s', (_, failure, others, want) => {
    const event = eventOfRefusal({ load: starting, slot: 1 }, failure, others)
    expect(event.type).toBe(want)
    if (event.type === 'slot_taken') expect(event.againInMs).toBeLessThanOrEqual(1_000)
  })
})

describe('answers of a worker', () => {
  const seen = { phase: 'downloading' as const, fileName: '', current: 5, total: 9, seq: 3 }
  const facts = { now: 10_000, quietMs: 5_000, stallMs: 60_000 }
  it.each([
    ['that it moved', { state: 'running', phase: 'downloading', current: 6, progress_seq: 4 }, facts, 'moved'],
    ['that nothing moved yet', { state: 'running', phase: 'downloading', current: 5, progress_seq: 3 }, facts, 'looked'],
    ['that nothing moves', { state: 'running', phase: 'downloading', current: 5, progress_seq: 3 }, { ...facts, now: 60_001 }, 'given_up'],
    ['that it is done', { state: 'succeeded' }, facts, 'ready'],
    ['that it failed', { state: 'failed', failure: soft }, facts, 'failed'],
    ['that it was called off', { state: 'cancelled' }, facts, 'failed'],
    ['that it knows nothing', { state: 'unknown' }, facts, 'unknown'],
    ['that it knows nothing, for long', { state: 'unknown' }, { ...facts, now: 60_001 }, 'given_up'],
  ] as const)('%s', (_, reply, at, want) => {
    const event = eventOfStatus(starting, { reply: { op_id: opId, ...reply }, bytes: seen }, at)
    expect(event === 'unknown' ? event : event.type).toBe(want)
    if (event !== 'unknown' && 'failure' in event) expect(event.failure).toMatchObject({ retry: 'backoff' })
  })
})
