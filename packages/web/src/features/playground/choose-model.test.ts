import type { ModelView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { chooseModel, modelSentence } from './playground-words.pure.ts'

const model = (name: string, state: ModelView['state'], more: object = {}): ModelView =>
  ({
    name,
    state,
    backend: 'b',
    revision: 'r',
    config: {},
    replicas_ready: 0,
    replicas_desired: 0,
    failure: null,
    ...more,
  }) as unknown as ModelView
const models = [model('a', 'unloaded'), model('b', 'ready', { replicas_ready: 1, replicas_desired: 2 }), model('c', 'ready')]

describe('the selected model', () => {
  it.each<[string, readonly ModelView[], string | undefined, string | null]>([
    ['is the named one', models, 'c', 'c'],
    ['is none for an unknown name', models, 'x', null],
    ['is one that is ready', models, undefined, 'b'],
    ['is the first when none is ready', models.slice(0, 1), undefined, 'a'],
    ['is none without models', [], undefined, null],
  ])('%s', (_, given, named, want) => expect(chooseModel(given, named)?.name ?? null).toBe(want))

  it.each<[ModelView | undefined, string]>([
    [models[0], 'a is not loaded. The first message loads it.'],
    [models[1], 'b is ready: 1 of 2 replicas.'],
    [model('d', 'staging'), 'd is starting: downloading files.'],
    [model('e', 'failed', { failure: { message: 'wrong hash' } }), 'e failed to load: wrong hash'],
  ])('is described in one sentence', (given, want) => expect(given && modelSentence(given)).toBe(want))
})
