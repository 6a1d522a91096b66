import { Digest, NodeId, OperationId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { candidate, inRam, modelToPlace, ramOf, replica, vramOf } from '../../test/placement-facts.ts'
import {
  chooseCard,
  choosePlacement,
  viewPlacement,
  chooseSpread,
  explainNoNode,
  type Candidate,
  type Exclusion,
  type PlacementModel,
} from './placement.pure.ts'
import type { SpreadFacts } from '../store/placement.ts'
import { needOf, unknownMemory } from './memory.pure.ts'

const [a, b] = ['a', 'b'].map((letter) => Digest.parse(`sha256:${letter.repeat(64)}`))
const gb = 1e9
const file = { digest: a ?? null, size: 2 * gb }
const need = needOf([file.size])
const own = { model: 'tiny' }
/** Some of its layers are on GPUs. */
const split = { ...modelToPlace().memory, cpu: inRam(5 * gb), gpu: { ram: 2 * gb, vram: 3 * gb } }
const judge = (wanted: Partial<PlacementModel>, over: Partial<Candidate>) =>
  choosePlacement(modelToPlace(wanted), [candidate('one', over)]).nodes[0]

describe('a node that is on its way is awaited', () => {
  const arriving = { status: 'unhealthy', isArriving: true } as const
  it.each<[string, Partial<Candidate>, Partial<PlacementModel>, boolean]>([
    ['also when its memory and disk are unknown', { ...arriving, ...ramOf(null) }, { files: [file] }, true],
    ['but not one that is silent', { status: 'unhealthy' }, {}, false],
    ['but not an agent', { ...arriving, nodeType: 'agent' }, {}, false],
    ['but not one with other labels', { ...arriving, labels: { gpu: 'amd' } }, { selector: { gpu: 'nvidia' } }, false],
    ['but not one with an old worker', { ...arriving, runsModels: false }, {}, false],
    ['but not one that no build is for', { ...arriving, hasBackend: false, unfit: 'nothing for linux/arm64' }, {}, false],
    ['but not beside the node of a pin', arriving, { pin: NodeId.parse('two') }, false],
  ])('%s', (_, over, wanted, isAwaited) => {
    expect(judge(wanted, over)).toMatchObject({ eligible: false, isAwaited })
  })
})

describe('a node is not eligible', () => {
  it.each<[string, Partial<Candidate>, Partial<PlacementModel>, [Exclusion, string]]>([
    ['when it is an agent', { nodeType: 'agent' }, {}, ['agent', 'agent']],
    ['when it is not approved', { status: 'pending', statusReason: 'waits' }, {}, ['status', 'it is pending: waits']],
    ['when it is silent', { status: 'unhealthy', statusReason: 'no heartbeat' }, {}, ['status', 'it is unhealthy: no heartbeat']],
    ['when it is drained', { status: 'draining', statusReason: 'drained' }, {}, ['status', 'it is draining']],
    ['when its worker knows no loads', { runsModels: false }, {}, ['old_worker', 'too old']],
    ['when an administrator unloaded the model there', { isUnloaded: true }, {}, ['unloaded', 'unloaded on this node by an administrator']],
    ['when its files were unloaded there, for an install', { isUnloaded: true }, { isStaging: true }, ['unloaded', 'by an administrator']],
    ['when another one is meant', {}, { pin: NodeId.parse('two') }, ['pin', 'another node']],
    ['when its labels do not match', { labels: { gpu: 'amd' } }, { selector: { gpu: 'nvidia' } }, ['selector', 'its label gpu is "amd"']],
    ['W43 when it has a label that it must not have', { labels: { old: '1' } }, { selector: { old: '!' } }, ['selector', 'requires "!"']],
    ['when no build of the backend is for it', { hasBackend: false, unfit: 'nothing for linux/arm64' }, {}, ['unfit', 'linux/arm64']],
    ['when it has one and each shall have one', { replicas: [replica(own)] }, { isSpread: true }, ['spread', 'has a replica']],
    ['when its disk is too small', { availableDisk: gb }, { files: [file] }, ['disk', 'need 2 GB on disk, and 1 GB are free']],
    [
      'when its disk is too small for the backend',
      { availableDisk: 2 * gb, hasBackend: false, artifactSize: 3 * gb },
      {},
      ['disk', 'its files and the backend llama need 3 GB on disk'],
    ],
    [
      'when others that are starting there need its disk',
      { availableDisk: 3 * gb, awaitedDisk: 2 * gb },
      { files: [file] },
      ['disk', '1 GB are free, when 2 GB are kept for replicas that are starting there'],
    ],
    ['when its memory is too small', { ...ramOf(gb) }, { files: [file] }, ['memory', 'about 2.3 GB of memory, and the node has 1 GB']],
    [
      'W19 when others have booked its memory, whatever it says is available',
      { ...ramOf(4 * gb, 4 * gb), replicas: [replica({ need: 2 * gb, state: 'draining' })] },
      { files: [file] },
      ['memory', 'and 2 GB of 4 GB are free'],
    ],
    [
      'when others than replicas use its memory',
      { ...vramOf(8 * gb, gb) },
      { files: [file] },
      ['memory', 'of GPU memory, and 1 GB of 8 GB are free'],
    ],
    [
      'when one is starting that it does not see yet',
      { ...ramOf(9 * gb, 4 * gb), replicas: [replica({ need: 2 * gb, state: 'starting' })] },
      { files: [file] },
      ['memory', '2 GB of 9 GB'],
    ],
    [
      'when it runs as many of this model as it may',
      { maxReplicasPerModel: 1, replicas: [replica(own)] },
      {},
      ['per_model', 'runs 1 replica of this model, and may run 1 of each model'],
    ],
    [
      'when it has too little memory for the layers that are not on its GPU',
      { ...vramOf(9 * gb), ...ramOf(gb) },
      { memory: split },
      ['memory', 'about 2 GB of memory, and the node has 1 GB'],
    ],
    [
      'when its GPU shares the memory of the machine and replicas on the processor have booked it',
      { ...vramOf(6 * gb), ...ramOf(6 * gb), hasSharedMemory: true, replicas: [replica({ need: 2 * gb })] },
      { memory: split },
      ['memory', 'about 5 GB of memory, and 4 GB of 6 GB are free'],
    ],
    ['when it runs as many as it may', { maxReplicas: 1, replicas: [replica()] }, {}, ['places', 'runs 1 replicas, and may run 1']],
  ])('%s', (_, over, wanted, [excludedBy, reason]) => {
    expect(judge(wanted, over)).toMatchObject({ eligible: false, score: 0, excludedBy, reason: expect.stringContaining(reason) as string })
  })
})

describe('with --disk-check warn', () => {
  it('a node whose disk is too small is eligible with a warning, after all others', () => {
    const full = candidate('full', { availableDisk: gb })
    const { nodes } = choosePlacement(modelToPlace({ files: [file], diskCheck: 'warn' }), [full, candidate('roomy')])
    expect(nodes).toMatchObject([
      { node_name: 'roomy', eligible: true },
      { node_name: 'full', eligible: true, reason: '', warning: 'its files need 2 GB on disk, and 1 GB are free' },
    ])
    expect(nodes[0]).not.toHaveProperty('warning')
    expect(viewPlacement({ nodes, eviction: null }, { memory: unknownMemory, candidates: [] }, []).nodes[1]).toMatchObject({
      warning: expect.stringContaining('2 GB'),
    })
  })
})

describe('a node is eligible', () => {
  it.each<[string, Partial<Candidate>, Partial<PlacementModel>]>([
    ['when the backend can be installed', { hasBackend: false }, {}],
    ['when it has the build already, whatever the gallery offers', { unfit: 'nothing for it', artifactSize: 9, availableDisk: 1 }, {}],
    ['F16 when nothing is known of its disk and memory', {}, { files: [file] }],
    ['F16 when only what is available is known', { ...ramOf(null, 1) }, { files: [file] }],
    ['when nothing is known of the size of the model', { ...ramOf(1, 1) }, { files: [{ digest: null, size: null }] }],
    ['when it has the files already, on a full disk', { availableDisk: 0, files: new Set([file.digest ?? '']) }, { files: [file] }],
    ['when it has exactly the memory', { ...ramOf(need, need) }, { files: [file] }],
    ['when a replica that uses its memory is treated as ended', { ...ramOf(need + gb, gb), vacatedMemory: inRam(need) }, { files: [file] }],
    ['on the processor, however full its GPU is', { ...ramOf(9 * gb), vram: { total: gb, available: 0 } }, { files: [file] }],
    ['on its GPU, however full its memory is', { ...vramOf(9 * gb), ...ramOf(1, 0) }, { files: [file] }],
    ['when GPU and memory have room for their layers', { ...vramOf(3 * gb), ...ramOf(2 * gb) }, { memory: split }],
    [
      'for staging, without backend and with little memory',
      { unfit: 'no', ...ramOf(1), hasBackend: false },
      { isStaging: true, files: [file] },
    ],
    [
      'when the backend is being installed, whatever its size',
      { availableDisk: gb, hasBackend: false, installId: OperationId.parse('op-1'), artifactSize: 3 * gb },
      {},
    ],
    ['for staging, at the replica limit', { maxReplicas: 1, replicas: [replica()] }, { isStaging: true }],
    ['when it runs as many of another model as it may of each', { maxReplicasPerModel: 1, replicas: [replica()] }, {}],
    [
      'when it replaces the one of the model that it may run',
      { maxReplicasPerModel: 1, replicas: [replica(own)] },
      { pin: NodeId.parse('one') },
    ],
    ['when what it has is of an old revision', { replicas: [replica({ ...own, isCurrent: false })] }, { isSpread: true }],
    ['when what it has is on its way out', { replicas: [replica({ ...own, state: 'draining' })] }, { isSpread: true }],
    ['when it replaces the replica there', { replicas: [replica(own)] }, { isSpread: true, pin: NodeId.parse('one') }],
  ])('%s', (_, over, wanted) => {
    expect(judge(wanted, over)).toMatchObject({ eligible: true, reason: '', excludedBy: null })
  })
})

describe('between two nodes', () => {
  const running = (count: number) => Array.from({ length: count }, () => replica())
  const lacking = { hasBackend: false }
  const installId = OperationId.parse('op-1')
  it.each<[string, Partial<Candidate>, Partial<Candidate>, Partial<PlacementModel>]>([
    ['the one that has the backend', { hasBackend: true, replicas: running(9) }, { hasBackend: false }, {}],
    ['the one where the backend is being installed', { ...lacking, installId, replicas: running(9) }, lacking, {}],
    ['the one that has the backend, not one that gets it', { replicas: running(9) }, { ...lacking, installId }, {}],
    ['the one that has the files', { files: new Set([a ?? '']), replicas: running(3) }, { files: new Set([b ?? '']) }, { files: [file] }],
    ['the one that runs less', { replicas: running(1) }, { replicas: running(2) }, {}],
    ['the one without a replica of the model', { hasBackend: false }, { replicas: [replica(own)] }, {}],
    ['the one where it did not fail just now', { hasBackend: false }, {}, { avoid: NodeId.parse('other') }],
    ['the one with more room, for staging', { availableDisk: 2 ** 40 }, { availableDisk: 2 ** 30 }, { isStaging: true }],
  ])('%s is taken', (_, best, other, wanted) => {
    const { nodes } = choosePlacement(modelToPlace(wanted), [candidate('other', other), candidate('zz-best', best)])
    expect(nodes[0]).toMatchObject({ node_name: 'zz-best', eligible: true })
  })

  it('the first is taken when they are equal', () => {
    const { nodes } = choosePlacement(modelToPlace(), [candidate('b'), candidate('a'), candidate('c', { hasBackend: false })])
    expect(nodes.map(({ node_name: name }) => name)).toEqual(['b', 'a', 'c'])
  })

  it('the node of the last failure is taken when there is no other', () => {
    const { nodes } = choosePlacement(modelToPlace({ avoid: NodeId.parse('one') }), [
      candidate('one'),
      candidate('two', { nodeType: 'agent' }),
    ])
    expect(nodes[0]).toMatchObject({ node_name: 'one', eligible: true })
  })
})

describe('one of several replicas on a node moves', () => {
  const calm = { hasReplica: false, calmMs: 60_000, failedMs: null }
  const pool = ramOf(4 * gb)
  const full = { ...pool, replicas: [replica({ need: 3 * gb })] }
  it.each<[string, Partial<Candidate>, Partial<SpreadFacts>, 'two' | null]>([
    ['to a node that has been calm for a minute', pool, {}, 'two'],
    ['to none that came back a moment ago', pool, { calmMs: 59_999 }, null],
    ['to none with a replica of the model, in whatever state', pool, { hasReplica: true }, null],
    ['to none where it did not start lately', pool, { failedMs: 599_999 }, null],
    ['to one where it did not start long ago', pool, { failedMs: 600_000 }, 'two'],
    ['to none that lacks the backend', { ...pool, hasBackend: false }, {}, null],
    ['to none without room, though others could be evicted', full, {}, null],
    ['to none that is away', { ...pool, status: 'unhealthy' }, {}, null],
  ])('%s', (_, over, facts, want) => {
    const placement = choosePlacement(modelToPlace({ files: [file] }), [
      candidate('one', { ...pool, replicas: [replica(own), replica(own)] }),
      candidate('two', over),
    ])
    const known = new Map([
      [NodeId.parse('one'), { ...calm, hasReplica: true }],
      [NodeId.parse('two'), { ...calm, ...facts }],
    ])
    expect(chooseSpread(placement, known)).toBe(want)
  })
})

describe('an eviction is proposed', () => {
  const pool = ramOf(4 * gb)
  const there = { replicas: [replica({ id: 'r-idle', need: 3 * gb })], ...pool }

  it('W17 only when no node is eligible', () => {
    const wanted = modelToPlace({ files: [file] })
    expect(choosePlacement(wanted, [candidate('full', there)]).eviction).toEqual({ nodeId: 'full', victims: ['r-idle'] })
    expect(choosePlacement(wanted, [candidate('full', there), candidate('free', { ...pool, hasBackend: false })]).eviction).toBeNull()
  })

  it.each<[string, Partial<Candidate>, Partial<PlacementModel>]>([
    ['the selector leaves out', {}, { selector: { gpu: 'nvidia' } }],
    ['is not healthy', { status: 'draining', statusReason: 'drained' }, {}],
    ['has no disk for it', { availableDisk: 1 }, {}],
  ])('W18 never on a node that %s', (_, over, wanted) => {
    expect(choosePlacement(modelToPlace({ files: [file], ...wanted }), [candidate('full', { ...there, ...over })]).eviction).toBeNull()
  })
})

it('the explanation names each node, and only a few of many', () => {
  expect(explainNoNode(modelToPlace(), choosePlacement(modelToPlace(), []))).toContain('there is none yet')
  const many = Array.from({ length: 20 }, (_, index) => candidate(`n${index}`, { status: 'draining', statusReason: 'drained' }))
  expect(explainNoNode(modelToPlace(), choosePlacement(modelToPlace(), many))).toMatch(/n0: it is draining: drained; .*and 12 more$/)
})

describe('a model that an administrator unloaded on a node', () => {
  const [one, two] = [NodeId.parse('one'), NodeId.parse('two')]
  it('is prefetched there when that is requested', () => {
    expect(judge({ isStaging: true, pin: one }, { isUnloaded: true })).toMatchObject({ eligible: true })
  })
  it('evicts nothing there', () => {
    const full = { ...ramOf(gb), replicas: [replica({ need: gb, priority: -1 })] }
    const placed = (isUnloaded: boolean) =>
      choosePlacement(modelToPlace({ files: [{ digest: null, size: gb / 2 }] }), [candidate('one', { ...full, isUnloaded })])
    expect(placed(false).eviction).toMatchObject({ nodeId: one })
    expect(placed(true).eviction).toBeNull()
  })
  it('is explained with the reason of its own node when the load is pinned', () => {
    const { nodes } = choosePlacement(modelToPlace({ pin: two }), [candidate('one'), candidate('two', { isUnloaded: true })])
    expect(explainNoNode({ name: modelToPlace().name }, { nodes, eviction: null })).toBe(
      'no node can run tiny: two: unloaded on this node by an administrator',
    )
  })
})

describe('the GPU that holds a replica', () => {
  const card = (id: string, total: number | null, available: number | null = total) => ({ id, name: `card ${id}`, total, available })
  const on = (id: string, vram: number, over: Parameters<typeof replica>[0] = {}) => replica({ ...over, card: id, need: { ram: 0, vram } })
  it.each<[string, Partial<Candidate>, number, string | null]>([
    ['is the one with the least room that is enough', { cards: [card('0', 24), card('1', 8), card('2', 4)] }, 6, '1'],
    ['has room beside the replicas that are booked there', { cards: [card('0', 24), card('1', 8)], replicas: [on('1', 4)] }, 6, '0'],
    ['has room beside other programs', { cards: [card('0', 24), card('1', 8, 5)] }, 6, '0'],
    [
      'has room beside a replica that its report does not include yet',
      { cards: [card('0', 24, 20), card('1', 12, 12)], replicas: [on('1', 5, { state: 'starting' }), on('1', 2)] },
      6,
      '0',
    ],
    ['is none when several must share it', { cards: [card('0', 24), card('1', 24)] }, 40, null],
    ['is none without a figure of its memory', { cards: [card('0', null)] }, 6, null],
    ['is none on the processor', { cards: [card('0', 24)] }, 0, null],
  ])('%s', (_, over, vram, want) => {
    expect(chooseCard(candidate('one', over), { ram: 1, vram })).toBe(want)
  })
})
