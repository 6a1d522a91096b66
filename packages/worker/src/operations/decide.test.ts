import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decide, type Known, type Past, type Verdict, type Wish } from './decide.ts'

const wish = (over: Partial<Wish> = {}): Wish => ({
  direction: 'present',
  digest: null,
  content: 'install',
  generation: null,
  epoch: null,
  ...over,
})
const remove = (over: Partial<Wish> = {}): Wish => wish({ direction: 'absent', content: 'delete', ...over })
const known = (over: Partial<Known> = {}): Known => ({ ...wish(), id: 1, state: 'open', ...over })
const past = (row: readonly Known[], holds = true): Past => ({ row, holds })

const accept = (...cancels: number[]): Verdict => ({ do: 'accept', cancels })
const join: Verdict = { do: 'join', id: 1 }
const answer: Verdict = { do: 'answer', id: 1 }
const refuse = (code: string) => ({ do: 'refuse', failure: { code, retry: 'never' } })

type Case = readonly [name: string, asked: Wish, row: readonly Known[], verdict: object, holds?: boolean]

const cases: readonly Case[] = [
  ['the first command is accepted', wish({ generation: 5 }), [], accept()],
  ['the first command without a generation is accepted', wish(), [], accept()],
  ['A4 the same generation while it is open joins', wish({ generation: 5 }), [known({ generation: 5 })], join],
  ['A4 another owner of the same generation joins', wish({ generation: 5, epoch: 3 }), [known({ generation: 5, epoch: 2 })], join],
  ['A5 the same generation when done is answered', wish({ generation: 5 }), [known({ generation: 5, state: 'succeeded' })], answer],
  ['A5 also under a newer epoch', wish({ generation: 5, epoch: 9 }), [known({ generation: 5, epoch: 2, state: 'succeeded' })], answer],
  [
    'what was done and undone since is done again',
    wish({ generation: 5 }),
    [known({ generation: 5, state: 'succeeded' })],
    accept(),
    false,
  ],
  ['A21 an older generation is refused', wish({ generation: 6 }), [known({ generation: 7, state: 'succeeded' })], refuse('superseded')],
  ['A21 also when the newer one failed', wish({ generation: 6 }), [known({ generation: 7, state: 'failed' })], refuse('superseded')],
  ['A21 a lower epoch is refused', wish({ generation: 5, epoch: 1 }), [known({ generation: 5, epoch: 2 })], refuse('superseded')],
  ['a newer generation may come with a lower epoch', wish({ generation: 6, epoch: 1 }), [known({ generation: 5, epoch: 2 })], accept()],
  [
    'A20 the same try that failed is answered',
    wish({ generation: 5, epoch: 2 }),
    [known({ generation: 5, epoch: 2, state: 'failed' })],
    answer,
  ],
  [
    'the next try of what failed is made',
    wish({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'failed' })],
    accept(),
  ],
  ['a try that has no epoch is a new one', wish({ generation: 5 }), [known({ generation: 5, state: 'failed' })], accept()],
  [
    'the next try of what was called off is made',
    wish({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'cancelled' })],
    accept(),
  ],
  [
    'the next try of what is being called off waits for its end',
    wish({ generation: 5, epoch: 3 }),
    [known({ generation: 5, epoch: 2, state: 'ending' })],
    accept(),
  ],
  ['the same try of what is being called off shares its end', wish({ generation: 5 }), [known({ generation: 5, state: 'ending' })], join],
  ['one generation is one wish', remove({ generation: 5 }), [known({ generation: 5 })], refuse('conflict')],
  ['one generation is one digest', wish({ generation: 5, digest: 'b' }), [known({ generation: 5, digest: 'a' })], refuse('conflict')],
  ['a newer opposite wish calls off what runs', remove({ generation: 6 }), [known({ generation: 5 })], accept(1)],
  ['so does one without a generation', remove(), [known({ generation: 5 })], accept(1)],
  ['what has ended is not called off', remove({ generation: 6 }), [known({ generation: 5, state: 'succeeded' })], accept()],
  [
    'a newer wish for the same leaves what runs alone',
    wish({ generation: 6, digest: 'a' }),
    [known({ generation: 5, digest: 'a' })],
    accept(),
  ],
  [
    'a newer wish for another digest calls off what runs',
    wish({ generation: 6, digest: 'b' }),
    [known({ generation: 5, digest: 'a' })],
    accept(1),
  ],
  ['without generations one waits for the other', wish({ digest: 'b', content: 'b' }), [known({ digest: 'a', content: 'a' })], accept()],
  ['without generations the same joins', wish(), [known()], join],
  ['without generations what has ended is done again', wish(), [known({ state: 'succeeded' })], accept()],
  [
    'a generation from before a command without one is refused',
    wish({ generation: 5 }),
    [known({ generation: 5, state: 'succeeded' }), known({ ...remove(), id: 2, state: 'succeeded' })],
    refuse('superseded'),
  ],
  [
    'a generation from after it is accepted',
    wish({ generation: 6 }),
    [known({ generation: 5, state: 'succeeded' }), known({ ...remove(), id: 2, state: 'succeeded' })],
    accept(),
  ],
]

describe('decide', () => {
  it.each(cases.map(([name, ...given]) => [name, given] as const))('%s', (_, [asked, row, verdict, holds]) => {
    expect(decide(asked, past(row, holds))).toMatchObject(verdict)
  })

  const optional = fc.option(fc.integer({ min: 0, max: 6 }), { nil: null })
  const anyWish = fc.record<Wish>({
    direction: fc.constantFrom('present', 'absent'),
    digest: fc.constantFrom(null, 'a', 'b'),
    content: fc.constantFrom('x', 'y'),
    generation: optional,
    epoch: optional,
  })
  const ends = fc.constantFrom<Known['state']>('open', 'ending', 'succeeded', 'failed', 'cancelled')

  /** Tells a worker all of it, in this order, and says what it accepted. */
  function live(wishes: readonly (readonly [Wish, Known['state']])[]): { row: Known[]; verdicts: Verdict[] } {
    const row: Known[] = []
    const verdicts = wishes.map(([asked, state], id) => {
      const verdict = decide(asked, past(row))
      if (verdict.do === 'accept') row.push({ ...asked, id, state })
      return verdict
    })
    return { row, verdicts }
  }

  it('A21 whatever order they come in, generations are only ever accepted upwards', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyWish, ends), { maxLength: 12 }), (wishes) => {
        const generations = live(wishes).row.flatMap(({ generation }) => generation ?? [])
        expect(generations).toEqual(generations.toSorted((a, b) => a - b))
      }),
    )
  })

  it('A21 within a generation epochs are only ever accepted upwards', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyWish, ends), { maxLength: 12 }), (wishes) => {
        const { row } = live(wishes)
        for (const [index, { generation, epoch }] of row.entries()) {
          const before = row.slice(0, index).findLast((each) => each.generation === generation)
          if (generation !== null && epoch !== null && typeof before?.epoch === 'number') expect(epoch).toBeGreaterThanOrEqual(before.epoch)
        }
      }),
    )
  })

  it('A20 the same try, heard again at once, is never carried out twice', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyWish, ends), { maxLength: 8 }), anyWish, ends, (wishes, asked, state) => {
        const { row } = live(wishes)
        const numbered = { ...asked, generation: asked.generation ?? 0, epoch: asked.epoch ?? 0 }
        const first = decide(numbered, past(row))
        if (first.do !== 'accept') return
        const second = decide(numbered, past([...row, { ...numbered, id: 99, state }]))
        expect(second).toMatchObject({ do: expect.stringMatching(/^(join|answer)$/), id: 99 })
      }),
    )
  })

  it('calls off only what is open, and always what wants the opposite', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyWish, ends), { maxLength: 8 }), anyWish, (wishes, asked) => {
        const { row } = live(wishes)
        const verdict = decide(asked, past(row))
        if (verdict.do !== 'accept') return
        const open = row.filter(({ state }) => state === 'open')
        expect(open.map(({ id }) => id)).toEqual(expect.arrayContaining([...verdict.cancels]))
        const opposite = open.filter(({ direction }) => direction !== asked.direction).map(({ id }) => id)
        expect(verdict.cancels).toEqual(expect.arrayContaining(opposite))
      }),
    )
  })
})
