import { ModelConfig } from '@muster/protocol'
import { expect, it } from 'vitest'
import { isSameConfig, describeSave } from './model-words.pure.ts'

const config = (more: object = {}): ModelConfig => ModelConfig.parse({ name: 'a', backend: 'llama', ...more })
const before = (ready: number) => ({ config: config({ scheduling: { min_replicas: 1 } }), revision: 'r1', replicas_ready: ready })

it.each([
  ['the same', before(1), { config: config({ scheduling: { min_replicas: 1 } }), revision: 'r1' }, ['nothing', 'No effective changes']],
  [
    'a description',
    before(1),
    { config: config({ description: 'x', scheduling: { min_replicas: 1 } }), revision: 'r1' },
    ['metadata', 'running replicas are not replaced.'],
  ],
  ['another scheduling', before(1), { config: config(), revision: 'r1' }, ['metadata', 'Scheduling changes']],
  ['nothing runs', before(0), { config: config({ context_size: 1 }), revision: 'r2' }, ['revision', 'used by the next load']],
  ['one runs', before(1), { config: config({ context_size: 1 }), revision: 'r2' }, ['revision', 'its replica is replaced']],
  [
    'several run',
    before(3),
    { config: config({ context_size: 1 }), revision: 'r2' },
    ['revision', 'its 3 replicas are replaced one by one'],
  ],
])('%s', (_, was, then, [changes, part = '']) => {
  expect(describeSave(was, then)).toEqual({ changes, sentence: expect.stringContaining(part) as string })
})

it('ignores the order of keys', () => {
  expect(isSameConfig(config({ options: { a: 1, b: { c: 1, d: [2, 3] } } }), config({ options: { b: { d: [2, 3], c: 1 }, a: 1 } }))).toBe(
    true,
  )
  expect(isSameConfig(config({ options: { d: [2, 3] } }), config({ options: { d: [3, 2] } }))).toBe(false)
})
