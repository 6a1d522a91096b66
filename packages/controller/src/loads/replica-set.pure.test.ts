import { BackendName, ModelConfig, ModelName, NodeId, OperationId, ReplicaId, stepLoad, type Load } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ReadyFacts } from '../store/load-rows.ts'
import type { WantedModel } from '../store/loads.ts'
import { decideSet, isWanted, staleOf, type Member } from './replica-set.pure.ts'

const name = ModelName.parse('tiny')
const [n1, n2, n3] = ['n-1', 'n-2', 'n-3'].map((id) => NodeId.parse(id)) as [NodeId, NodeId, NodeId]
const model = (over: Partial<WantedModel> & { scheduling?: object } = {}): WantedModel => ({
  ...{ name, revision: 'rev-1', backend: BackendName.parse('llama'), requestedReplicas: 0, isUnloaded: false, matching: 0 },
  config: ModelConfig.parse({ name, backend: 'llama', scheduling: over.scheduling ?? {} }),
  ...over,
})
const two = model({ scheduling: { min_replicas: 2 } })
const one = model({ scheduling: { min_replicas: 1 } })

const common = {
  ...{ model: name, purpose: 'serve' as const, revision: 'rev-1', epoch: 1, attempts: 0 },
  ...{ pin: null, needsCheck: false, isRoomMade: false, note: '', lease: null },
}
const load = (ordinal: number, over: Partial<Load> = {}): Member => ({
  load: { ...common, ordinal, state: 'waiting', nextAt: 0, ...over } as Load,
  ready: null,
})
const failed = { state: 'failed', failure: { code: 'integrity', retry: 'never', message: 'no' }, failedAt: 0, nodeId: null } as const
type Up = Partial<ReadyFacts> & { at?: NodeId; revision?: string; pin?: NodeId }
/** A replica that serves, and that every controller routes to. */
const up = (ordinal: number, { at = n1, revision = 'rev-1', pin, ...facts }: Up = {}): Member => ({
  load: {
    ...{ ...common, ordinal, revision, pin: pin ?? null, state: 'ready', nodeId: at, readyAt: 0 },
    ...{ opId: OperationId.parse('ld-1'), replicaId: ReplicaId.parse(`r-${ordinal}`) },
  },
  ready: { checked: 'passed', isReachable: true, isNodeDraining: false, isAdmitted: true, digest: 'a', listed: 'a', ...facts },
})
const draining = { isNodeDraining: true }
const outdated = { listed: 'b' }
const edited = { revision: 'rev-0' }

type Want = { add?: [number, NodeId | null, boolean][]; gone?: number[]; changed?: number[] }
const outcomeOf = (wanted: WantedModel, members: readonly Member[], spreadTo: NodeId | null = null): Required<Want> => {
  const { add, events } = decideSet(wanted, members, spreadTo)
  const of = (type: string): number[] =>
    events.flatMap(({ load: { ordinal }, event }) => (event.type === type ? [ordinal] : [])).toSorted((a, b) => a - b)
  return {
    add: add.map(({ ordinal, pin, needsCheck }) => [ordinal, pin, needsCheck]),
    gone: of('unwanted'),
    changed: of('revision_changed'),
  }
}
const nothing: Required<Want> = { add: [], gone: [], changed: [] }

describe('how many there are', () => {
  it.each<[string, WantedModel, Member[], Want]>([
    ['none that nobody asks for', model(), [], {}],
    [
      'S4.9 W35 as many as the minimum says, all at once',
      two,
      [],
      {
        add: [
          [0, null, false],
          [1, null, false],
        ],
      },
    ],
    ['what is missing', two, [load(0)], { add: [[1, null, false]] }],
    ['what is missing, whatever their numbers are', two, [load(7)], { add: [[0, null, false]] }],
    ['one when a request came', model({ requestedReplicas: 1 }), [], { add: [[0, null, false]] }],
    ['not more than that: what has not come far goes first', one, [load(0), up(1)], { gone: [0] }],
    ['not more than that: what is asked by nobody yet goes before what serves', one, [up(0, { checked: 'due' }), up(1)], { gone: [0] }],
    ['not more than that: the last of equals goes', one, [up(0), up(1)], { gone: [1] }],
    ['none while it is held', { ...two, isUnloaded: true }, [up(0), load(1)], { gone: [0, 1] }],
    ['none when nobody asks any more', model(), [up(0), up(1, edited)], { gone: [0, 1] }],
    ['what failed for good, to be seen', model(), [load(3, { ...failed, nextAt: null })], {}],
    ['of what failed for good one is enough', model(), [3, 2].map((ordinal) => load(ordinal, { ...failed, nextAt: null })), { gone: [3] }],
    ['what failed for good no longer once it is held', model({ isUnloaded: true }), [load(0, { ...failed, nextAt: null })], { gone: [0] }],
    ['what failed and heals only while it is asked for', model(), [load(0, { ...failed, nextAt: 5 })], { gone: [0] }],
    ['what is staged, whatever is asked', model(), [load(0, { purpose: 'stage' })], {}],
    ['one on every node that fits', model({ scheduling: { replicas: 'all' }, matching: 2 }), [up(0)], { add: [[1, null, false]] }],
  ])('%s', (_, wanted, members, want) => {
    expect(outcomeOf(wanted, members)).toEqual({ ...nothing, ...want })
  })
})

describe('replicas that share a node', () => {
  const three = model({ scheduling: { min_replicas: 3 } })
  const coming = { pin: n2, state: 'starting', nodeId: n2 } as const
  it.each<[string, [WantedModel, Member[], NodeId | null], Want]>([
    ['get another one on a node that has none', [two, [up(0), up(1)], n2], { add: [[2, n2, true]] }],
    ['stay where no other node has room', [two, [up(0), up(1)], null], {}],
    ['stay while one of them is not admitted', [two, [up(0), up(1, { isAdmitted: false })], n2], {}],
    ['stay while one of them is to be replaced', [two, [up(0), up(1, outdated)], n2], { add: [[2, n1, true]] }],
    ['stay while one is missing', [three, [up(0), up(1)], n2], { add: [[2, null, false]] }],
    ['do not, on two nodes', [two, [up(0), up(1, { at: n2 })], n3], {}],
    ['are not moved where each node has one', [model({ scheduling: { replicas: 'all' }, matching: 1 }), [up(0)], n2], {}],
    ['get one at a time', [two, [up(0), up(1), load(2, coming)], n3], {}],
    ['serve while the other one starts', [two, [up(0), up(1), load(2, coming)], null], {}],
    ['serve until the other one passed its check', [two, [up(0), up(1), up(2, { at: n2, pin: n2, checked: 'due' })], null], {}],
    ['serve until the other one is admitted', [two, [up(0), up(1), up(2, { at: n2, pin: n2, isAdmitted: false })], null], {}],
    ['lose one when the other one is admitted', [two, [up(0), up(1), up(2, { at: n2, pin: n2 })], null], { gone: [1] }],
    ['stay when the other one fails', [two, [up(0), up(1), load(2, { ...failed, pin: n2, nextAt: 5 })], null], { gone: [2] }],
    ['stay when its node leaves', [two, [up(0), up(1), load(2)], null], { gone: [2] }],
    ['lose one each time', [three, [up(0), up(1), up(2), up(3, { at: n2, pin: n2 })], null], { gone: [2] }],
    ['stay after that, unless another node has none', [three, [up(0), up(1), up(3, { at: n2, pin: n2 })], null], {}],
    ['go on to another node', [three, [up(0), up(1), up(3, { at: n2, pin: n2 })], n3], { add: [[2, n3, true]] }],
  ])('%s', (_, given, want) => {
    expect(outcomeOf(...given)).toEqual({ ...nothing, ...want })
  })
})

describe('a new revision', () => {
  it.each<[string, WantedModel, Member[], Want]>([
    ['takes over loads that are not ready', one, [load(0, edited)], { changed: [0] }],
    ['comes up beside the old one, and is checked', one, [up(0, edited)], { add: [[1, null, true]] }],
    ['of two comes up one at a time', two, [up(0, edited), up(1, edited)], { add: [[2, null, true]] }],
    ['is waited for', one, [up(0, edited), load(1)], {}],
    ['that fails leaves the old one where it is', one, [up(0, edited), load(1, { ...failed, nextAt: null })], {}],
    ['that is ready is checked first', one, [up(0, edited), up(1, { checked: 'due' })], {}],
    ['that passed is waited for until every controller asks it', one, [up(0, edited), up(1, { isAdmitted: false })], {}],
    ['that every controller asks lets the old one go', one, [up(0, edited), up(1)], { gone: [0] }],
    ['lets one old one go for each', two, [up(0, edited), up(1, edited), up(2)], { gone: [1], add: [[3, null, true]] }],
    [
      'of a revision that never served any replaces it at once',
      one,
      [up(0, { ...edited, checked: 'due' })],
      { gone: [0], add: [[1, null, false]] },
    ],
    ['on a node that is away lets nobody go', one, [up(0, edited), up(1, { isReachable: false })], {}],
    [
      'of one on every node comes up where the old one is',
      model({ scheduling: { replicas: 'all' }, matching: 1 }),
      [up(0, edited)],
      { add: [[1, n1, true]] },
    ],
    [
      'of one on every node lets the one beside it go',
      model({ scheduling: { replicas: 'all' }, matching: 2 }),
      [up(0, edited), up(1, { ...edited, at: n2 }), up(2, { at: n1, pin: n1 })],
      { gone: [0], add: [[3, n2, true]] },
    ],
    ['while fewer are wanted is no more than those', one, [up(0, edited), up(1, edited)], { gone: [1], add: [[2, null, true]] }],
  ])('%s', (_, wanted, members, want) => {
    expect(outcomeOf(wanted, members)).toEqual({ ...nothing, ...want })
  })
})

describe('another version of the backend', () => {
  it.each<[string, WantedModel, Member[], Want]>([
    ['comes up beside the old one, on that node', one, [up(0, outdated)], { add: [[1, n1, true]] }],
    ['that is not known is none', one, [up(0, { listed: null })], {}],
    ['of a replica that is unknown is none', one, [up(0, { digest: null, listed: 'b' })], {}],
    ['on one node leaves the others alone', two, [up(0), up(1, { ...outdated, at: n2 })], { add: [[2, n2, true]] }],
    [
      'lets the one beside it go',
      two,
      [up(0, outdated), up(1, { ...outdated, at: n2 }), up(2, { pin: n1 })],
      { gone: [0], add: [[3, n2, true]] },
    ],
    ['is not started twice', two, [up(0, outdated), up(1, { ...outdated, at: n2 }), load(2, { pin: n1 })], {}],
    [
      'replaces each of two on a node there',
      model({ scheduling: { min_replicas: 3 } }),
      [up(0, outdated), up(1, outdated), load(2, { pin: n1 })],
      { add: [[3, n1, true]] },
    ],
    [
      'replaces the second of two on a node there as well, when the first is gone',
      two,
      [up(0, outdated), up(2, { pin: n1 })],
      { add: [[1, n1, true]] },
    ],
    ['that is taken back lets the new one go', one, [up(0), up(1, { digest: 'b', pin: n1 })], { gone: [1] }],
    ['that is taken back drops what was on its way', one, [up(0), load(1, { pin: n1 })], { gone: [1] }],
    ['of an old revision is an old revision', one, [up(0, { ...outdated, ...edited })], { add: [[1, null, true]] }],
  ])('%s', (_, wanted, members, want) => {
    expect(outcomeOf(wanted, members)).toEqual({ ...nothing, ...want })
  })
})

describe('one on every node', () => {
  const each = model({ scheduling: { replicas: 'all' }, matching: 2 })
  it.each<[string, WantedModel, Member[], Want]>([
    ['and a second on one of them: it serves on until one is elsewhere', each, [up(0), up(1)], { add: [[2, null, true]] }],
    ['and the second goes when it is', each, [up(0), up(1), up(2, { at: n2 })], { gone: [1] }],
    ['and nothing else', each, [up(0), up(1, { at: n2 })], {}],
  ])('%s', (_, wanted, members, want) => expect(outcomeOf(wanted, members)).toEqual({ ...nothing, ...want }))
})

describe('a node that is drained', () => {
  it.each<[string, WantedModel, Member[], Want]>([
    ['keeps its replica until another one serves elsewhere', one, [up(0, draining)], { add: [[1, null, true]] }],
    ['is left when it does', one, [up(0, draining), up(1, { at: n2 })], { gone: [0] }],
    ['is left first', two, [up(0, draining), up(1, { ...edited, at: n2 }), up(2, { at: n3 })], { gone: [0], add: [[3, null, true]] }],
    [
      'counts no more for one on every node',
      model({ scheduling: { replicas: 'all' }, matching: 1 }),
      [up(0, draining), up(1, { at: n2 })],
      { gone: [0] },
    ],
  ])('%s', (_, wanted, members, want) => {
    expect(outcomeOf(wanted, members)).toEqual({ ...nothing, ...want })
  })
})

it('a load is wanted as long as any is', () => {
  expect([one, model(), { ...one, isUnloaded: true }].map((each) => isWanted(load(5).load, each))).toEqual([true, false, false])
  expect(isWanted(load(0, { purpose: 'stage' }).load, model())).toBe(true)
})

/** Loads as they may be found, in a fleet of four nodes of which some are drained and some have another version. */
const found = fc.record({
  min: fc.nat(4),
  isUnloaded: fc.boolean(),
  isEverywhere: fc.boolean(),
  members: fc.array(
    fc.record({
      node: fc.nat(3),
      state: fc.constantFrom('waiting', 'starting', 'failed', 'ready', 'ready', 'ready'),
      isOld: fc.boolean(),
      checked: fc.constantFrom<ReadyFacts['checked']>('due', 'passed', 'passed'),
      isAdmitted: fc.boolean(),
      isPinned: fc.boolean(),
      digest: fc.constantFrom('a', 'b', null),
    }),
    { maxLength: 7 },
  ),
  drained: fc.uniqueArray(fc.nat(3), { maxLength: 2 }),
  listed: fc.array(fc.constantFrom('a', 'b'), { minLength: 4, maxLength: 4 }),
})
type Situation = typeof found extends fc.Arbitrary<infer T> ? T : never
const nodes = ['n-0', 'n-1', 'n-2', 'n-3'].map((id) => NodeId.parse(id))
const nodeOf = (index: number): NodeId => nodes[index] ?? n1

function worldOf({ min, isUnloaded, isEverywhere, members, drained, listed }: Situation): { wanted: WantedModel; before: Member[] } {
  const scheduling = isEverywhere ? { replicas: 'all' } : { min_replicas: min, max_replicas: 0 }
  const wanted = model({ scheduling, isUnloaded, matching: nodes.length - drained.length })
  const before = members.map(({ node, state, isOld, isPinned, ...facts }, ordinal): Member => {
    const revision = isOld ? 'rev-0' : 'rev-1'
    const pin = isPinned ? nodeOf(node) : null
    if (state !== 'ready')
      return load(ordinal, { ...(state === 'failed' ? { ...failed, nextAt: 5 } : { state: state as 'waiting' }), revision, pin })
    const ready = { ...facts, isReachable: true, isNodeDraining: drained.includes(node), listed: listed[node] ?? null }
    return { ...up(ordinal, { at: nodeOf(node), revision }), load: { ...up(ordinal, { at: nodeOf(node), revision }).load, pin }, ready }
  })
  return { wanted, before }
}
const servingOf = (members: readonly Member[]): number =>
  members.filter(({ load: { state }, ready }) => state === 'ready' && ready?.checked === 'passed').length
const desired = ({ min, isUnloaded, isEverywhere, drained }: Situation): number =>
  isUnloaded ? 0 : isEverywhere ? nodes.length - drained.length : min

/** Applies the decision. */
function act(wanted: WantedModel, members: readonly Member[]): Member[] {
  const { add, events } = decideSet(wanted, members)
  const eventOf = new Map(events.map(({ load: of, event }) => [of, event]))
  const left = members.flatMap((member): Member[] => {
    const event = eventOf.get(member.load)
    if (event === undefined) return [member]
    const after = stepLoad(member.load, event, { now: 1, chance: 0 })
    return after === null || after === 'gone' ? [] : [{ load: after, ready: null }]
  })
  return [...left, ...add.map(({ ordinal, pin, needsCheck }) => load(ordinal, { pin, needsCheck }))]
}

/** Starting loads become ready where they may, and all ready ones are admitted. */
function comeUp(members: readonly Member[], { drained, listed, isEverywhere }: Situation): Member[] {
  const taken = new Set(members.flatMap(({ load: of }) => (of.state === 'ready' && of.revision === 'rev-1' ? [of.nodeId] : [])))
  const homeOf = (isFree: (id: NodeId) => boolean): number => nodes.findIndex((id, index) => !drained.includes(index) && isFree(id))
  return members.map((member) => {
    if (member.ready !== null) return { ...member, ready: { ...member.ready, checked: 'passed', isAdmitted: true } }
    const pinned = nodes.findIndex((id, index) => id === member.load.pin && !drained.includes(index))
    // As placement does: not beside another one where one each is wanted.
    const free = isEverywhere ? homeOf((id) => !taken.has(id)) : -1
    const at = pinned !== -1 ? pinned : free === -1 ? homeOf(() => true) : free
    taken.add(nodeOf(at))
    const { revision, ordinal, pin } = member.load
    return {
      ...up(ordinal, {
        at: nodeOf(at),
        revision,
        digest: listed[at] ?? null,
        listed: listed[at] ?? null,
        ...(pin === null ? {} : { pin }),
      }),
    }
  })
}

describe('whatever is found', () => {
  it('no step of it leaves fewer that serve than are wanted, or than there were', () => {
    fc.assert(
      fc.property(found, (facts) => {
        const { wanted, before } = worldOf(facts)
        const after = act(wanted, before)
        expect(servingOf(after)).toBeGreaterThanOrEqual(Math.min(desired(facts), servingOf(before)))
      }),
    )
  })

  it('deciding twice changes nothing', () => {
    const ready = { node: 2, state: 'ready', isOld: false, checked: 'passed', isAdmitted: false, isPinned: false, digest: 'a' } as const
    const spreading = { node: 0, state: 'waiting', isOld: false, checked: 'due', isAdmitted: false, isPinned: true, digest: 'a' } as const
    const others = { min: 1, isUnloaded: false, isEverywhere: false, drained: [], listed: ['a', 'a', 'a', 'a'] as ('a' | 'b')[] }
    fc.assert(
      fc.property(found, (facts) => {
        const { wanted, before } = worldOf(facts)
        expect(decideSet(wanted, act(wanted, before))).toMatchObject({ add: [], events: [] })
      }),
      { examples: [[{ ...others, members: [spreading, ready, ready] }]] },
    )
  })

  it('I15 a change has one more than is wanted at most, and never more than there were', () => {
    fc.assert(
      fc.property(found, (facts) => {
        const { wanted, before } = worldOf(facts)
        expect(act(wanted, before).length).toBeLessThanOrEqual(Math.max(before.length, desired(facts) + 1))
      }),
    )
  })

  it('I9 it ends with as many as are wanted, all of them new, and changes nothing from then on', () => {
    fc.assert(
      fc.property(found, (facts) => {
        const { wanted, before } = worldOf(facts)
        let members = before
        let fewest = Infinity
        for (let round = 0; round < 20; round += 1) {
          members = act(wanted, members)
          fewest = Math.min(fewest, servingOf(members))
          members = comeUp(members, facts)
        }
        expect(members).toHaveLength(desired(facts))
        expect(members.map((member) => staleOf(member, 'rev-1'))).toEqual(members.map(() => null))
        expect(decideSet(wanted, members)).toEqual({ add: [], events: [] })
        expect(fewest).toBeGreaterThanOrEqual(Math.min(desired(facts), servingOf(before)))
      }),
    )
  })

  it('a new replica of a model with one per node starts where an old one is', () => {
    fc.assert(
      fc.property(found, (facts) => {
        const everywhere = { ...facts, isEverywhere: true, isUnloaded: false, members: [] }
        const { wanted } = worldOf(everywhere)
        const free = nodes.filter((_, index) => !facts.drained.includes(index))
        const olds = free.map((at, ordinal) => up(ordinal, { ...edited, at }))
        const next = decideSet(wanted, olds).add
        expect(next.every(({ pin }) => pin !== null)).toBe(true)
      }),
    )
  })
})
