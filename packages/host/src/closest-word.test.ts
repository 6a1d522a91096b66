import { expect, it } from 'vitest'
import { closestWord } from './closest-word.ts'

it.each([
  ['node-timeot', 'node-timeout'],
  ['node_timeout', 'node-timeout'],
  ['PORT', 'port'],
  ['hots', 'host'],
  ['', 'host'],
])('takes %s for %s', (word, closest) => {
  expect(closestWord(word, ['host', 'port', 'node-timeout', 'heartbeat-interval'])).toBe(closest)
})

it('knows nothing close among nothing', () => {
  expect(closestWord('a', [])).toBeNull()
})
