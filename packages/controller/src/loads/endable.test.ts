// Where there is no room for two: old ones end before new ones are up, and never so that more than one is missing.
import { BackendName, ModelConfig, ModelName, NodeId, OperationId, ReplicaId, stepLoad, type Load } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { ReadyFacts } from '../store/load-rows.ts'
import type { WantedModel } from '../store/loads.ts'
import { decideSet, endableFor, staleOf, type Member } from './replica-set.pure.ts'

const name = ModelName.parse('tiny')
const nodeOf = (index: number): NodeId => NodeId.parse(`n-${index}`)
const modelOf = (count: number): WantedModel => ({
  ...{ name, revision: 'rev-1', backend: BackendName.parse('llama'), requestedReplicas: 0, isUnloaded: false, matching: 0 },
  config: ModelConfig.parse({ name, backend: 'llama', scheduling: { min_replicas: count } }),
})
const common = {
  ...{ model: name, purpose: 'serve' as const, revision: 'rev-1', epoch: 1, attempts: 0 },
  ...{ pin: null, needsCheck: false, isRoomMade: false, note: '', lease: null },
}
const waiting = (ordinal: number, pin: NodeId | null = null): Member => ({
  load: { ...common, ordinal, pin, state: 'waiting', nextAt: 0 },
  ready: null,
})
const failedAs = (load: Load): Member => ({
  load: {
    ...common,
    ...load,
    state: 'failed',
    failure: { code: 'internal', retry: 'backoff', message: 'no' },
    failedAt: 0,
    nextAt: 0,
    nodeId: null,
  },
  ready: null,
})
const nowhere = (ordinal: number, isRoomMade = false): Member => ({
  load: {
    ...{ ...common, ordinal, isRoomMade, state: 'failed', failedAt: 0, nextAt: 0, nodeId: null },
    failure: { code: 'no_capacity', retry: 'backoff', message: 'no node' },
  },
  ready: null,
})
const serves: ReadyFacts = { checked: 'passed', isReachable: true, isNodeDraining: false, isAdmitted: true, digest: 'a', listed: 'a' }
type Up = Partial<ReadyFacts> & { at?: number; revision?: string; pin?: NodeId | null }
const up = (ordinal: number, { at = ordinal, revision = 'rev-1', pin = null, ...facts }: Up = {}): Member => ({
  load: {
    ...{ ...common, ordinal, revision, pin, state: 'ready', nodeId: nodeOf(at), readyAt: 0 },
    ...{ opId: OperationId.parse('ld-1'), replicaId: ReplicaId.parse(`r-${ordinal}`) },
  },
  ready: { ...serves, ...facts },
})
const old = { revision: 'rev-0' }
const coming = { checked: 'due', isAdmitted: false } as const

describe('an old one may end first', () => {
  it.each<[string, number, Member[], [number[], string]]>([
    ['when it is the only one', 1, [up(0, old), waiting(5)], [[0], 'now']],
    ['when all are there', 3, [up(0, old), up(1, old), up(2, old), waiting(5)], [[0, 1, 2], 'now']],
    ['when one is missing for another new one: only after that', 3, [up(1, old), up(2, old), up(0, coming), waiting(5)], [[1, 2], 'soon']],
    [
      'when one is missing, and room is made for another: only after that',
      3,
      [up(1, old), up(2, old), waiting(4), waiting(5)],
      [[1, 2], 'soon'],
    ],
    [
      'when one is missing that no controller asks yet: only after that',
      2,
      [up(1, old), up(0, { isAdmitted: false }), waiting(5)],
      [[1], 'soon'],
    ],
    ['when the one before it is replaced', 3, [up(1, old), up(2, old), up(0), waiting(5)], [[1, 2], 'now']],
    ['when the others that are missing never had a place', 3, [up(0, old), up(1, old), nowhere(4), waiting(5)], [[0, 1], 'now']],
    ['but not when room was made for one of those', 3, [up(0, old), up(1, old), nowhere(4, true), waiting(5)], [[0, 1], 'not']],
    ['but not when the one before it failed', 2, [up(1, old), failedAs(waiting(4).load), waiting(5)], [[1], 'not']],
    ['but not where its node is drained; there it counts', 2, [up(0, old), up(1, { isNodeDraining: true }), waiting(5)], [[0], 'now']],
    ['but not when it is out of reach, nor counts then', 2, [up(0, old), up(1, { ...old, isReachable: false }), waiting(5)], [[0], 'not']],
  ])('%s', (_, count, members, want) => {
    const found = endableFor(waiting(5).load, modelOf(count), members)
    expect([found.olds.map(({ load }) => load.ordinal), found.when]).toEqual(want)
  })
})

const servingOf = (members: readonly Member[]): number => members.filter(({ ready }) => ready?.checked === 'passed').length

/** A fleet with so much room; what may happen to it, in any order. */
class Fleet {
  members: Member[]
  readonly #model: WantedModel
  readonly #rooms: readonly number[]

  constructor(rooms: readonly number[], { count, isVersion }: { count: number; isVersion: boolean }) {
    this.#model = modelOf(count)
    this.#rooms = rooms
    const free = rooms.flatMap((room, at) => Array.from({ length: room }, () => at))
    this.members = free.slice(0, count).map((at, ordinal) => up(ordinal, { at, ...(isVersion ? { digest: 'z' } : old) }))
  }

  decide(): void {
    const { add, events } = decideSet(this.#model, this.members)
    const left = this.members.flatMap((member): Member[] => {
      const event = events.find(({ load }) => load === member.load)?.event
      const after = event === undefined ? member.load : stepLoad(member.load, event, { now: 1, chance: 0 })
      return after === null || after === 'gone' ? [] : [{ load: after, ready: event === undefined ? member.ready : null }]
    })
    this.members = [...left, ...add.map(({ ordinal, pin }) => waiting(ordinal, pin))]
  }

  /** The first that waits has a node, or room is made for it, or it fails. */
  place(): void {
    const next = this.members.find(({ load }) => load.state === 'waiting')
    if (next === undefined) return
    const { ordinal, pin } = next.load
    const isFree = (at: number): boolean =>
      this.members.filter(({ load }) => load.state === 'ready' && load.nodeId === nodeOf(at)).length < (this.#rooms[at] ?? 0)
    const at = this.#rooms.findIndex((_, index) => (pin === null || nodeOf(index) === pin) && isFree(index))
    if (at !== -1) return this.#replace(next, up(ordinal, { at, pin, ...coming }))
    const { olds, when } = endableFor(next.load, this.#model, this.members)
    const end = olds.find(({ load }) => pin === null || load.nodeId === pin)
    if (end === undefined || when !== 'now') return this.#replace(next, failedAs(next.load))
    this.members = this.members.filter(({ load }) => load.ordinal !== end.load.ordinal)
  }

  pass(): void {
    this.#first(
      ({ ready }) => ready?.checked === 'due',
      (member) => [{ ...member, ready: { ...serves, isAdmitted: false } }],
    )
  }

  fail(): void {
    this.#first(
      ({ ready }) => ready?.checked === 'due',
      ({ load }) => [failedAs(load)],
    )
  }

  admit(): void {
    this.#first(
      ({ ready }) => ready?.checked === 'passed' && !ready.isAdmitted,
      (member) => [{ ...member, ready: serves }],
    )
  }

  retry(): void {
    this.#first(
      ({ load }) => load.state === 'failed',
      ({ load }) => [waiting(load.ordinal, load.pin)],
    )
  }

  isDone(count: number): boolean {
    return (
      this.members.length === count &&
      this.members.every((member) => member.ready?.isAdmitted === true && staleOf(member, 'rev-1') === null)
    )
  }

  #first(is: (member: Member) => boolean, then: (member: Member) => Member[]): void {
    const found = this.members.find(is)
    if (found !== undefined) this.members = this.members.flatMap((member) => (member === found ? then(member) : [member]))
  }

  #replace(member: Member, by: Member): void {
    this.members = this.members.map((each) => (each === member ? by : each))
  }
}

const happenings = ['decide', 'place', 'pass', 'fail', 'admit', 'retry'] as const
const change = fc.record({ count: fc.integer({ min: 1, max: 5 }), perNode: fc.integer({ min: 1, max: 3 }), isVersion: fc.boolean() })
/** Room for as many as are wanted, and for none beside them. */
const fleetOf = ({ count, perNode, isVersion }: { count: number; perNode: number; isVersion: boolean }): Fleet => {
  const rooms = Array.from({ length: Math.ceil(count / perNode) }, (_, at) => Math.min(perNode, count - at * perNode))
  return new Fleet(rooms, { count, isVersion })
}

describe('whatever happens while all is replaced where there is no room for two', () => {
  it('never more than one is missing', () => {
    fc.assert(
      fc.property(change, fc.array(fc.constantFrom(...happenings), { maxLength: 80 }), (facts, sequence) => {
        const fleet = fleetOf(facts)
        for (const happening of sequence) {
          fleet[happening]()
          expect(servingOf(fleet.members)).toBeGreaterThanOrEqual(facts.count - 1)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('it comes to its end, whatever failed before', () => {
    fc.assert(
      fc.property(change, fc.array(fc.constantFrom(...happenings), { maxLength: 40 }), (facts, sequence) => {
        const fleet = fleetOf(facts)
        for (const happening of sequence) fleet[happening]()
        for (let round = 0; round < 30; round += 1) for (const next of ['decide', 'retry', 'place', 'pass', 'admit'] as const) fleet[next]()
        expect(fleet.isDone(facts.count)).toBe(true)
      }),
    )
  })
})
