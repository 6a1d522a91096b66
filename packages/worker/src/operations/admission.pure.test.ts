import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decide, type AcceptedIntent, type BackendHistory, type Verdict, type BackendIntent } from './admission.pure.ts'

const install = (over: Partial<BackendIntent> = {}): BackendIntent => ({
  direction: 'present',
  digest: null,
  content: 'install',
  generation: null,
  epoch: null,
  ...over,
})
const remove = (over: Partial<BackendIntent> = {}): BackendIntent => install({ direction: 'absent', content: 'delete', ...over })
const known = (over: Partial<AcceptedIntent> = {}): AcceptedIntent => ({ ...install(), id: 1, state: 'open', ...over })
const past = (accepted: readonly AcceptedIntent[], holds = true): BackendHistory => ({ accepted, holds })

const accept = (...cancels: number[]): Verdict => ({ do: 'accept', cancels })
const join: Verdict = { do: 'join', id: 1 }
const answer: Verdict = { do: 'answer', id: 1 }
const refuse = (code: string) => ({ do: 'refuse', failure: { code, retry: 'never' } })

type Case = readonly [name: string, intent: BackendIntent, accepted: readonly AcceptedIntent[], verdict: object, holds?: boolean]

const cases: readonly Case[] = [
  ['the first command is accepted', install({ generation: 5 }), [], accept()],
  ['the first command without a generation is accepted', install(), [], accept()],
  ['A4 the same generation while it is open joins', install({ generation: 5 }), [known({ generation: 5 })], join],
  ['A4 another owner of the same generation joins', install({ generation: 5, epoch: 3 }), [known({ generation: 5, epoch: 2 })], join],
  ['A5 the same generation when done is answered', install({ generation: 5 }), [known({ generation: 5, state: 'succeeded' })], answer],
  ['A5 also under a newer epoch', install({ generation: 5, epoch: 9 }), [known({ generation: 5, epoch: 2, state: 'succeeded' })], answer],
  [
    'what was done and undone since is done again',
    install({ generation: 5 }),
    [known({ generation: 5, state: 'succeeded' })],
    accept(),
    false,
  ],
  [
    'a digest that the operation got since continues the open work',
    install({ generation: 5, epoch: 3, digest: 'd1' }),
    [known({ generation: 5, epoch: 2 })],
    join,
  ],
  [
    'a digest that the operation got since is part of the next try',
    install({ generation: 5, epoch: 3, digest: 'd1' }),
    [known({ generation: 5, epoch: 2, state: 'failed' })],
    accept(),
  ],
  [
    'a digest that the operation had is not dropped',
    install({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, digest: 'd1' })],
    refuse('conflict'),
  ],
  ['A21 an older generation is refused', install({ generation: 6 }), [known({ generation: 7, state: 'succeeded' })], refuse('superseded')],
  ['A21 also when the newer one failed', install({ generation: 6 }), [known({ generation: 7, state: 'failed' })], refuse('superseded')],
  ['A21 a lower epoch is refused', install({ generation: 5, epoch: 1 }), [known({ generation: 5, epoch: 2 })], refuse('superseded')],
  ['a newer generation may come with a lower epoch', install({ generation: 6, epoch: 1 }), [known({ generation: 5, epoch: 2 })], accept()],
  [
    'A20 the same try that failed is answered',
    install({ generation: 5, epoch: 2 }),
    [known({ generation: 5, epoch: 2, state: 'failed' })],
    answer,
  ],
  [
    'the next try of what failed is made',
    install({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'failed' })],
    accept(),
  ],
  ['a try that has no epoch is a new one', install({ generation: 5 }), [known({ generation: 5, state: 'failed' })], accept()],
  [
    'the next try of what was cancelled is made',
    install({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'cancelled' })],
    accept(),
  ],
  [
    'the next attempt of work that is being cancelled waits for its end',
    install({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'ending' })],
    accept(),
  ],
  [
    'the same attempt of work that is being cancelled shares its end',
    install({ generation: 5 }),
    [known({ generation: 5, state: 'ending' })],
    join,
  ],
  ['one generation is one intent', remove({ generation: 5 }), [known({ generation: 5 })], refuse('conflict')],
  ['one generation is one digest', install({ generation: 5, digest: 'b' }), [known({ generation: 5, digest: 'a' })], refuse('conflict')],
  ['a newer opposite intent cancels running work', remove({ generation: 6 }), [known({ generation: 5 })], accept(1)],
  ['so does one without a generation', remove(), [known({ generation: 5 })], accept(1)],
  ['what has ended is not cancelled', remove({ generation: 6 }), [known({ generation: 5, state: 'succeeded' })], accept()],
  [
    'a newer intent for the same leaves running work alone',
    install({ generation: 6, digest: 'a' }),
    [known({ generation: 5, digest: 'a' })],
    accept(),
  ],
  [
    'a newer intent for another digest cancels running work',
    install({ generation: 6, digest: 'b' }),
    [known({ generation: 5, digest: 'a' })],
    accept(1),
  ],
  ['without generations one waits for the other', install({ digest: 'b', content: 'b' }), [known({ digest: 'a', content: 'a' })], accept()],
  ['without generations the same joins', install(), [known()], join],
  ['without generations what has ended is done again', install(), [known({ state: 'succeeded' })], accept()],
  [
    'a generation from before a command without one is refused',
    install({ generation: 5 }),
    [known({ generation: 5, state: 'succeeded' }), known({ ...remove(), id: 2, state: 'succeeded' })],
    refuse('superseded'),
  ],
  [
    'a generation from after it is accepted',
    install({ generation: 6 }),
    [known({ generation: 5, state: 'succeeded' }), known({ ...remove(), id: 2, state: 'succeeded' })],
    accept(),
  ],
]

describe('decide', () => {
  it.each(cases.map(([name, ...given]) => [name, given] as const))('%s', (_, [intent, accepted, verdict, holds]) => {
    expect(decide(intent, past(accepted, holds))).toMatchObject(verdict)
  })

  const optional = fc.option(fc.integer({ min: 0, max: 6 }), { nil: null })
  const anyIntent = fc.record<BackendIntent>({
    direction: fc.constantFrom('present', 'absent'),
    digest: fc.constantFrom(null, 'a', 'b'),
    content: fc.constantFrom('x', 'y'),
    generation: optional,
    epoch: optional,
  })
  const ends = fc.constantFrom<AcceptedIntent['state']>('open', 'ending', 'succeeded', 'failed', 'cancelled')

  /** Sends all intents to a worker in this order, and returns what it accepted. */
  function live(intents: readonly (readonly [BackendIntent, AcceptedIntent['state']])[]): {
    accepted: AcceptedIntent[]
    verdicts: Verdict[]
  } {
    const accepted: AcceptedIntent[] = []
    const verdicts = intents.map(([intent, state], id) => {
      const verdict = decide(intent, past(accepted))
      if (verdict.do === 'accept') accepted.push({ ...intent, id, state })
      return verdict
    })
    return { accepted, verdicts }
  }

  it('A21 in any order of arrival, generations are accepted only upwards', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyIntent, ends), { maxLength: 12 }), (intents) => {
        const generations = live(intents).accepted.flatMap(({ generation }) => generation ?? [])
        expect(generations).toEqual(generations.toSorted((a, b) => a - b))
      }),
    )
  })

  it('A21 within a generation, epochs are accepted only upwards', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyIntent, ends), { maxLength: 12 }), (intents) => {
        const { accepted } = live(intents)
        for (const [index, { generation, epoch }] of accepted.entries()) {
          const before = accepted.slice(0, index).findLast((each) => each.generation === generation)
          if (generation !== null && epoch !== null && typeof before?.epoch === 'number') expect(epoch).toBeGreaterThanOrEqual(before.epoch)
        }
      }),
    )
  })

  it('A20 the same attempt, received twice, never runs twice', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyIntent, ends), { maxLength: 8 }), anyIntent, ends, (intents, intent, state) => {
        const { accepted } = live(intents)
        const numbered = { ...intent, generation: intent.generation ?? 0, epoch: intent.epoch ?? 0 }
        const first = decide(numbered, past(accepted))
        if (first.do !== 'accept') return
        const second = decide(numbered, past([...accepted, { ...numbered, id: 99, state }]))
        expect(second).toMatchObject({ do: expect.stringMatching(/^(join|answer)$/), id: 99 })
      }),
    )
  })

  it('cancels only open work, and always work in the opposite direction', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyIntent, ends), { maxLength: 8 }), anyIntent, (intents, intent) => {
        const { accepted } = live(intents)
        const verdict = decide(intent, past(accepted))
        if (verdict.do !== 'accept') return
        const open = accepted.filter(({ state }) => state === 'open')
        expect(open.map(({ id }) => id)).toEqual(expect.arrayContaining([...verdict.cancels]))
        const opposite = open.filter(({ direction }) => direction !== intent.direction).map(({ id }) => id)
        expect(verdict.cancels).toEqual(expect.arrayContaining(opposite))
      }),
    )
  })
})
