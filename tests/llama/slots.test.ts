// Which of llama.cpp's sequences a request gets, with sequences that only remember.
import { describe, expect, it } from 'vitest'

type Slot = Readonly<{ sequence: Sequence }>
interface Slots {
  acquire(tokens: readonly number[], signal: AbortSignal): Promise<Slot>
  release(slot: Slot): void
  busy(): number
  waiting(): number
}
const path = new URL('../../backends/llama/slots.mjs', import.meta.url).href
const { createSlots }: { createSlots(sequences: readonly Sequence[]): Slots } = await import(path)

/** A prompt of one conversation: its number, then the question. */
const said = (conversation: number, length: number): number[] =>
  Array.from({ length }, (_, at) => (at < 3 ? at : conversation * 1_000 + at))

class Sequence {
  tokens: readonly number[] = []
  get nextTokenIndex(): number {
    return this.tokens.length
  }
  compareContextTokens(tokens: readonly number[]): { firstDifferentIndex: number } {
    const at = tokens.findIndex((token, index) => token !== this.tokens[index])
    return { firstDifferentIndex: at === -1 ? tokens.length : at }
  }
}

function start(count: number) {
  const sequences = Array.from({ length: count }, () => new Sequence())
  const slots = createSlots(sequences)
  const acquire = (tokens: readonly number[]) => slots.acquire(tokens, new AbortController().signal)
  /** Which sequence had it. */
  const ask = async (tokens: readonly number[]): Promise<number> => {
    const slot = await acquire(tokens)
    slot.sequence.tokens = tokens
    slots.release(slot)
    return sequences.indexOf(slot.sequence)
  }
  return { sequences, slots, acquire, ask }
}

describe('of several free slots', () => {
  it('a conversation gets the one that remembers it', async () => {
    const { ask } = start(4)
    const first = [await ask(said(1, 20)), await ask(said(2, 20)), await ask(said(3, 20))]
    expect(new Set(first).size).toBe(3)
    expect([await ask(said(2, 30)), await ask(said(1, 30)), await ask(said(3, 30))]).toEqual([first[1], first[0], first[2]])
  })

  it('a new conversation takes an empty one, though all begin alike', async () => {
    const { ask } = start(3)
    expect(new Set([await ask(said(1, 20)), await ask(said(2, 20)), await ask(said(3, 20))]).size).toBe(3)
  })

  it('a new conversation takes the one that was not used for longest when none is empty', async () => {
    const { ask } = start(2)
    const [one, two] = [await ask(said(1, 20)), await ask(said(2, 20))]
    await ask(said(1, 30))
    expect(await ask(said(3, 20))).toBe(two)
    expect(await ask(said(1, 40))).toBe(one)
  })

  it('a slot that lost its cache counts as an empty one', async () => {
    const { ask, sequences } = start(2)
    await ask(said(1, 20))
    const two = await ask(said(2, 20))
    const emptied = sequences[two]
    if (emptied !== undefined) emptied.tokens = []
    expect(await ask(said(3, 20))).toBe(two)
  })

  it('half of the prompt is enough to choose a slot, less is not', async () => {
    const { ask } = start(2)
    const one = await ask(said(1, 20))
    expect(await ask([...said(1, 10), ...said(5, 20).slice(10)])).toBe(one)
    expect(await ask([...said(1, 9), ...said(6, 20).slice(9)])).not.toBe(one)
  })
})

it('waiting requests get free slots in the order of arrival', async () => {
  const { acquire, slots } = start(1)
  const held = await acquire(said(1, 20))
  const order: number[] = []
  const second = acquire(said(2, 20)).then((slot) => (order.push(2), slots.release(slot)))
  const third = acquire(said(3, 20)).then((slot) => (order.push(3), slots.release(slot)))
  expect([slots.busy(), slots.waiting()]).toEqual([1, 2])
  slots.release(held)
  await Promise.all([second, third])
  expect([order, slots.busy(), slots.waiting()]).toEqual([[2, 3], 0, 0])
})
