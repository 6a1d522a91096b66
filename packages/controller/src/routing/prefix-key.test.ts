import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { prefixKeyOf, textKeyOf } from './replica-choice.pure.ts'

const chat = '/v1/chat/completions'
const system = { role: 'system', content: 'You are helpful.' }
const user = (content: unknown) => ({ role: 'user', content })
const said = { role: 'assistant', content: 'Hello!' }
const keyOf = (messages: unknown, more: object = {}) => prefixKeyOf(chat, { model: 'm', messages, ...more })

describe('of a chat', () => {
  it('sglang #26263 all turns of a conversation have the same key', () => {
    const first = keyOf([system, user('Who are you?')])
    expect(first).not.toBeNull()
    expect(keyOf([system, user('Who are you?'), said, user('And I?')], { stream: true, temperature: 0 })).toBe(first)
  })

  const picture = (data: string) => user([{ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }])
  const tool = (name: string) => ({ tools: [{ type: 'function', function: { name } }] })
  it.each<[string, unknown, unknown]>([
    ['in the first user message', keyOf([system, user('a')]), keyOf([system, user('b')])],
    ['in the system message', keyOf([system, user('a')]), keyOf([{ ...system, content: 'Be brief.' }, user('a')])],
    ['in a role', keyOf([system, user('a')]), keyOf([{ ...system, role: 'developer' }, user('a')])],
    ['in the number of earlier messages', keyOf([system, user('a')]), keyOf([user('a')])],
    ['in the order', keyOf([system, said, user('a')]), keyOf([said, system, user('a')])],
    ['in the tools', keyOf([user('a')], tool('x')), keyOf([user('a')], tool('y'))],
    ['in a picture', keyOf([picture('A'.repeat(9_000))]), keyOf([picture(`${'A'.repeat(8_999)}B`)])],
    ['in where texts end', keyOf([user(['ab', 'c'])]), keyOf([user(['a', 'bc'])])],
    [
      'behind a system prompt of 100 kB',
      keyOf([{ ...system, content: 'x'.repeat(1e5) }, user('a')]),
      keyOf([{ ...system, content: 'x'.repeat(1e5) }, user('b')]),
    ],
  ])('differs when it differs %s', (_, one, other) => {
    expect(one).not.toBe(other)
  })

  it.each([undefined, null, 'hello', [], {}, 7])('%j gives no key', (messages) => {
    expect(keyOf(messages)).toBeNull()
  })

  it('any body has a key or none, deterministically', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(chat, '/v1/completions', '/v1/embeddings'), (value, path) => {
        const body = { model: 'm', messages: [value, value], prompt: value, input: value }
        const key = prefixKeyOf(path, body)
        expect(prefixKeyOf(path, structuredClone(body))).toBe(key)
        if (key !== null) expect(key >= 0 && key < 2 ** 32 && Number.isInteger(key)).toBe(true)
      }),
    )
  })
})

it.each([
  ['/v1/completions', 'prompt'],
  ['/v1/embeddings', 'input'],
])('of %s: the beginning of its %s', (path, field) => {
  const key = (value: unknown) => prefixKeyOf(path, { [field]: value })
  const long = 'x'.repeat(600)
  expect(key('a')).toBe(key('a'))
  expect(key('a')).not.toBe(key('b'))
  expect(key([1, 2, 3])).not.toBe(key([1, 2, 4]))
  expect(key(`a${long}`)).not.toBe(key(`b${long}`))
  expect(key(undefined)).toBeNull()
})

it('marks of replicas differ', () => {
  const marks = new Set(Array.from({ length: 10_000 }, (_, i) => textKeyOf(`r-${i.toString(36)}`)))
  expect(marks.size).toBeGreaterThan(9_990)
})
