import { format, inspect } from 'node:util'
import { expect, it } from 'vitest'
import { Secret } from './secret.ts'

const secret = new Secret('canary')

it('reveals its value on request', () => {
  expect(secret.reveal()).toBe('canary')
})

it.each([
  ['String', String(secret)],
  ['join', [secret, secret].join()],
  ['JSON', JSON.stringify({ secret })],
  ['inspect', inspect({ secret }, { showHidden: true, depth: null })],
  ['format', format('%s %o %j', secret, secret, secret)],
  ['copy', JSON.stringify(Object.assign({}, secret))],
  ['clone', inspect(structuredClone(secret))],
  ['error', String(new Error('bad', { cause: secret }).stack)],
])('SEC26 is not shown by %s', (_how, shown) => {
  expect(shown).not.toContain('canary')
})
