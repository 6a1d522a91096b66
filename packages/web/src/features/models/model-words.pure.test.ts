import { ModelView, ReplicaView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { firstLine, filterModels, modelSentence, modelsSentence, describeNextTry, replicasOf } from './model-words.pure.ts'

const model = (name: string, more: object = {}): ModelView =>
  ModelView.parse({
    ...{ name, backend: 'llama', revision: 'r', config: { name, backend: 'llama' }, state: 'ready' },
    ...{ replicas_ready: 1, replicas_desired: 1, failure: null, ...more },
  })
const failure = { code: 'invalid', message: 'no such file.\nmore', at: '2026-01-01T00:00:00Z', next_retry_at: null, attempts: 2 }
const failed = (name: string) => model(name, { state: 'failed', replicas_ready: 0, failure })

describe('the sentence of all models', () => {
  it.each([
    ['none', [], 'No models yet.'],
    ['one', [model('a')], '1 model, 1 ready.'],
    ['some start', [model('a'), model('b', { state: 'staging' })], '2 models, 1 ready, 1 starting.'],
    ['one failed', [model('a'), failed('b')], '2 models, 1 ready. b failed to load: no such file.'],
    ['two failed', [failed('a'), failed('b')], '2 models, 0 ready. a and b failed to load.'],
    ['one is short', [model('a', { failure })], '1 model, 1 ready. a has fewer replicas than desired.'],
  ])('%s', (_, models, sentence) => expect(modelsSentence(models)).toBe(sentence))
})

describe('the sentence of one', () => {
  const facts = { replicas: [], progress: null, perMinute: undefined }
  const replica = (node: string, state = 'ready') =>
    ReplicaView.parse({
      ...{ id: `r-${node}`, model: 'a', revision: 'r', node_id: node, node_name: node, state, reachable: true },
      ...{ backend_digest: null, in_flight: 0, started_at: '' },
    })
  const progress = { node: 'gpu-1', percent: 41.9, current: 1.2e9, total: 2.9e9 }
  it.each([
    ['unloaded', model('a', { state: 'unloaded' }), facts, 'Not loaded. The first request loads it.'],
    ['staging', model('a', { state: 'staging' }), { ...facts, progress }, 'Downloading files on gpu-1: 41 %, 1.2 of 2.9 GB.'],
    ['loading', model('a', { state: 'loading' }), { ...facts, progress }, 'Starting on gpu-1.'],
    ['failed', failed('a'), facts, 'Failed to load after 2 attempts.'],
    ['without replicas', model('a'), facts, '1 of 1 replica ready.'],
    [
      'ready',
      model('a', { replicas_ready: 2, replicas_desired: 3 }),
      { replicas: [replica('n2'), replica('n1'), replica('n3', 'starting')], progress: null, perMinute: 14 },
      '2 of 3 replicas ready on n1 and n2; 14 requests/min.',
    ],
    ['more than desired', model('a', { replicas_ready: 2 }), facts, '2 replicas ready.'],
  ])('%s', (_, view, more, sentence) => expect(modelSentence(view, more)).toBe(sentence))
})

it('shortens an error to one line', () => {
  expect(firstLine('a'.repeat(300))).toBe(`${'a'.repeat(199)}…`)
  expect(firstLine('it ended; it wrote last:\nloading\n  out of memory\n')).toBe('it ended; it wrote last: out of memory')
})

it.each([
  [0, 0, '–'],
  [0, 2, '0 of 2'],
  [2, 1, '2 of 2'],
])('%i ready, %i desired: %s', (ready, desired, text) =>
  expect(replicasOf(model('a', { replicas_ready: ready, replicas_desired: desired }))).toBe(text),
)

it('describes the next attempt', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  expect(describeNextTry('2026-01-01T00:00:40Z', now)).toBe('Next attempt in 40s')
  expect(describeNextTry('2025-01-01T00:00:40Z', now)).toBe('Next attempt is due')
  expect(describeNextTry(null, now)).toContain('No automatic retry')
})

it('filters by state and by text', () => {
  const all = [model('chat'), model('embed', { state: 'staging' }), failed('broken')]
  const names = (q: string, state: string) => filterModels(all, { q, state }).map(({ name }) => name)
  expect(names('', '')).toEqual(['chat', 'embed', 'broken'])
  expect(names('', 'starting')).toEqual(['embed'])
  expect(names(' LLA', 'failed')).toEqual(['broken'])
})
