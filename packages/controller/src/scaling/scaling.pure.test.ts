import { ModelName, Scheduling } from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { limitsOf } from '../loads/replica-set.pure.ts'
import { type ScalableModel, slotsOf } from '../store/scaling.ts'
import { busyMs, decideScaling, type Scale, type ScalingFacts } from './scaling.pure.ts'

const idleMs = 60_000
const now = 1_000_000
const model = (some: Partial<ScalableModel> = {}): ScalableModel => ({
  ...{ name: ModelName.parse('tiny'), scheduling: { max_replicas: 4 }, requestedReplicas: 2, isUnloaded: false },
  ...{ busySince: null, slackSince: null, loads: some.requestedReplicas ?? 2, failed: 0, ready: [], slots: 1 },
  ...some,
})
const decide = (inFlight: readonly number[], some: Partial<ScalableModel> = {}): Scale | null =>
  decideScaling({ model: model(some), inFlight, now, idleMs })
const scale = (requestedReplicas: number, streaks: Partial<Scale> = {}): Scale => ({
  ...{ requestedReplicas, busySince: null, slackSince: null },
  ...streaks,
})
const long = { busySince: now - busyMs, slackSince: now - idleMs }

describe('a model whose replicas are all busy', () => {
  it.each<[string, readonly number[], Partial<ScalableModel>, Scale | null]>([
    ['begins a streak', [2, 1], {}, scale(2, { busySince: now })],
    ['goes on with it', [3, 1], { busySince: now - busyMs + 1 }, null],
    ['gets one more when it was long enough', [2, 1], { busySince: long.busySince }, scale(3)],
    ['is not busy by one long request', [1], { requestedReplicas: 1, busySince: long.busySince }, scale(1)],
    ['is not busy by one long request each', [1, 1], { busySince: long.busySince }, scale(2)],
    ['is not busy while its slots take all requests', [4, 4], { slots: 4, busySince: long.busySince }, scale(2)],
    ['is busy when its slots do not take all requests', [5, 4], { slots: 4, busySince: long.busySince }, scale(3)],
    ['gets one more, not one per request', [50, 50], { busySince: long.busySince }, scale(3)],
    ['loses the streak when one of them is free', [5, 0], { busySince: long.busySince }, scale(2)],
    ['ends what was slack', [2, 1], { slackSince: long.slackSince }, scale(2, { busySince: now })],
    ['has no more than its maximum', [9, 9], { scheduling: { max_replicas: 2 }, busySince: long.busySince }, scale(2)],
    ['has no limit with a maximum of 0', [2, 1], { scheduling: { max_replicas: 0 }, busySince: long.busySince }, scale(3)],
    [
      'grows from its minimum, whatever was asked',
      [2, 1],
      { ...many(2), requestedReplicas: 0, loads: 2, busySince: long.busySince },
      scale(3),
    ],
    ['counts from its maximum, when more were requested before', [0, 0], { ...lowered(2), slackSince: long.slackSince }, scale(1)],
    ['waits while one comes up', [2], { loads: 2, busySince: long.busySince }, scale(2)],
    ['does not grow while a replica does not fit', [2], { failed: 1, busySince: long.busySince }, scale(2)],
    ['waits while one goes', [2, 1], { loads: 3, busySince: long.busySince }, scale(2)],
    ['is left alone when disabled', [2, 1], { scheduling: { max_replicas: 4, disabled: true }, busySince: long.busySince }, scale(2)],
    ['is left alone when unloaded', [2, 1], { isUnloaded: true, busySince: long.busySince }, scale(2)],
    ['is left alone on all nodes', [2], { scheduling: { replicas: 'all' }, requestedReplicas: 1, loads: 1 }, null],
  ])('%s', (_, inFlight, some, want) => expect(decide(inFlight, some)).toEqual(want))
})

describe('a model that needs one replica less', () => {
  it.each<[string, readonly number[], Partial<ScalableModel>, Scale | null]>([
    ['begins a streak', [0, 0], {}, scale(2, { slackSince: now })],
    ['goes on with it', [0, 0], { slackSince: now - idleMs + 1 }, null],
    ['loses one when it was long enough', [0, 0], { slackSince: long.slackSince }, scale(1)],
    ['loses one, however idle it is', [0, 0, 0, 0], { requestedReplicas: 4, slackSince: long.slackSince }, scale(3)],
    ['is none when one less would all be busy', [1, 0], { slackSince: long.slackSince }, scale(2)],
    ['is none while one less would have no free slot', [2, 2], { slots: 4, slackSince: long.slackSince }, scale(2)],
    ['is one while one less would have a free slot', [2, 1], { slots: 4, slackSince: long.slackSince }, scale(1)],
    ['is one while three have one request', [1, 0, 0], { requestedReplicas: 3, slackSince: long.slackSince }, scale(2)],
    ['keeps its minimum', [0, 0], { ...many(2), slackSince: long.slackSince }, scale(2)],
    ['keeps its last one: that goes by disuse', [0], { requestedReplicas: 1, slackSince: long.slackSince }, scale(1)],
    ['waits while one comes up', [0], { loads: 2, slackSince: long.slackSince }, scale(2)],
    ['drops a replica that does not fit', [1, 0], { requestedReplicas: 3, failed: 1, slackSince: long.slackSince }, scale(2)],
    ['keeps it while the others are all busy', [2, 1], { requestedReplicas: 3, failed: 1, slackSince: long.slackSince }, scale(3)],
    ['keeps it while there is no other', [], { requestedReplicas: 2, failed: 2, slackSince: long.slackSince }, scale(2)],
    ['keeps its minimum, also replicas that do not fit', [0], { ...many(2), failed: 1, slackSince: long.slackSince }, scale(2)],
  ])('%s', (_, inFlight, some, want) => expect(decide(inFlight, some)).toEqual(want))
})

function many(min: number): Partial<ScalableModel> {
  return { scheduling: { min_replicas: min, max_replicas: 4 } }
}
function lowered(max: number): Partial<ScalableModel> {
  return { scheduling: { max_replicas: max }, requestedReplicas: 4, loads: max }
}

const schedulings = fc.record({ min_replicas: fc.nat(4), max_replicas: fc.nat(6) }).filter((each) => Scheduling.safeParse(each).success)
const facts = fc
  .record({
    scheduling: schedulings,
    ...{
      slots: fc.integer({ min: 1, max: 3 }),
      asked: fc.nat(7),
      loads: fc.nat(7),
      failed: fc.nat(2),
      isUnloaded: fc.boolean(),
      inFlight: fc.array(fc.nat(3), { maxLength: 7 }),
    },
    ...{ busyFor: fc.option(fc.nat(2 * busyMs)), slackFor: fc.option(fc.nat(2 * idleMs)) },
  })
  .map(({ scheduling, slots, asked: requestedReplicas, loads, failed, isUnloaded, inFlight, busyFor, slackFor }): ScalingFacts => ({
    model: model({
      ...{ scheduling, slots, requestedReplicas, loads, failed, isUnloaded },
      ...{ busySince: busyFor === null ? null : now - busyFor, slackSince: slackFor === null ? null : now - slackFor },
    }),
    ...{ inFlight, now, idleMs },
  }))
const wantedOf = ({ scheduling, requestedReplicas }: Pick<ScalableModel, 'scheduling' | 'requestedReplicas'>): number => {
  const { min, max } = limitsOf(scheduling)
  return Math.min(max, Math.max(min, requestedReplicas))
}

it.each<[string, unknown, number]>([
  ['one without a number', {}, 1],
  ['those of parallel', { parallel: 4 }, 4],
  ['those of sequences', { sequences: '2' }, 2],
  ['those of a list', ['use_jinja:true', 'mmap', 'parallel:8'], 8],
  ['one of a list without a number', ['parallel'], 1],
  ['one with a number that makes no sense', { parallel: 0 }, 1],
  ['one without options', null, 1],
])('the slots of a replica are %s', (_, options, want) => expect(slotsOf(options)).toBe(want))

describe('whatever the facts', () => {
  it('a step leads by one, to between its minimum (or one) and its maximum, and ends the streaks', () => {
    fc.assert(
      fc.property(facts, (given) => {
        const to = decideScaling(given)
        if (to === null || to.requestedReplicas === given.model.requestedReplicas) return
        const { min, max } = limitsOf(given.model.scheduling)
        expect(Math.abs(to.requestedReplicas - wantedOf(given.model))).toBe(1)
        expect(to.requestedReplicas).toBeGreaterThanOrEqual(Math.max(1, min))
        expect(to.requestedReplicas).toBeLessThanOrEqual(max)
        expect(to).toMatchObject({ busySince: null, slackSince: null })
      }),
      { numRuns: 2_000 },
    )
  })

  it('G14 no step while a replica starts or ends, or while the model is unloaded', () => {
    fc.assert(
      fc.property(facts, (given) => {
        const wanted = wantedOf(given.model)
        const isOpen = given.model.loads !== wanted || given.inFlight.length + given.model.failed !== wanted
        if (isOpen || given.model.isUnloaded)
          expect(decideScaling(given)?.requestedReplicas ?? given.model.requestedReplicas).toBe(given.model.requestedReplicas)
      }),
      { numRuns: 2_000 },
    )
  })

  it('no step up while not all of them are ready', () => {
    fc.assert(
      fc.property(facts, (given) => {
        const wanted = wantedOf(given.model)
        const to = decideScaling(given)
        if (to !== null && to.requestedReplicas > wanted && to.requestedReplicas !== given.model.requestedReplicas)
          expect(given.inFlight).toHaveLength(wanted)
      }),
      { numRuns: 2_000 },
    )
  })

  it('deciding again on the result changes nothing', () => {
    fc.assert(
      fc.property(facts, (given) => {
        const to = decideScaling(given)
        if (to !== null) expect(decideScaling({ ...given, model: { ...given.model, ...to } })).toBeNull()
      }),
      { numRuns: 2_000 },
    )
  })
})

/** Simulates load second by second on a model whose replicas start some seconds after a step. */
const lives = fc.record({
  scheduling: schedulings,
  startsIn: fc.nat(20),
  loads: fc.array(fc.tuple(fc.nat(8), fc.integer({ min: 1, max: 150 })), { minLength: 1, maxLength: 12 }),
})

describe('over time', () => {
  it('W35 no two steps come sooner than a streak, and none up and down within one', () => {
    fc.assert(
      fc.property(lives, ({ scheduling, startsIn, loads }) => {
        const steps = live({ scheduling, startsIn, loads })
        for (const [index, step] of steps.entries()) {
          const before = steps[index - 1]
          if (before === undefined) continue
          const apart = step.at - before.at
          expect(apart).toBeGreaterThanOrEqual(step.by > 0 ? busyMs : idleMs)
        }
      }),
      { numRuns: 300 },
    )
  })
})

/** Every step that was taken, and when. */
function live({ scheduling, startsIn, loads }: { scheduling: Scheduling; startsIn: number; loads: [number, number][] }) {
  const steps: { at: number; by: number }[] = []
  let state = model({ scheduling, requestedReplicas: Math.max(1, limitsOf(scheduling).min) })
  let ready = state.requestedReplicas
  let openFor = 0
  let at = 0
  for (const [requests, seconds] of loads)
    for (let second = 0; second < seconds; second += 1, at += 1_000) {
      openFor = ready === state.requestedReplicas ? 0 : openFor + 1
      if (openFor > startsIn) ready = state.requestedReplicas
      const inFlight = Array.from({ length: ready }, (_, index) => Math.floor(requests / ready) + (index < requests % ready ? 1 : 0))
      const to = decideScaling({ model: { ...state, loads: state.requestedReplicas }, inFlight, now: at, idleMs })
      if (to === null) continue
      if (to.requestedReplicas !== state.requestedReplicas) steps.push({ at, by: to.requestedReplicas - state.requestedReplicas })
      state = { ...state, ...to }
    }
  return steps
}
