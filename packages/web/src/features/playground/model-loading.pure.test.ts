import type { BackendName, Loading, ModelName, ModelView, OperationId, OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { coldView, type ColdView, type ColdWorld } from './model-loading.pure.ts'

const model = (state: ModelView['state']): ModelView => ({
  ...{ name: 'm' as ModelName, backend: 'llama', revision: 'r', state, replicas_ready: 0, replicas_desired: 1, failure: null },
  config: {
    name: 'm' as ModelName,
    backend: 'llama' as BackendName,
    parameters: {},
    files: [],
    options: {},
    known_usecases: [],
    scheduling: {},
  },
})
const told = (changes: Partial<Loading>): Loading => ({
  ...{ model: 'm', state: 'staging', node: 'gpu-1', progress: 0, current_bytes: 0, total_bytes: 0 },
  ...changes,
})
const operation = (changes: Partial<OperationView>): OperationView => ({
  ...{ id: 'op' as OperationId, kind: 'backend.install', backend: 'llama', model: null, state: 'running', message: '', progress: 30 },
  ...{ file_name: '', current_bytes: 3, total_bytes: 10, created_at: '', finished_at: null, requested_by: '', nodes: [] },
  ...changes,
})
const world = (changes: Partial<ColdWorld>): ColdWorld => ({ model: undefined, told: [], operations: [], ...changes })

describe('a model that comes up', () => {
  it.each<[string, Partial<ColdWorld>, ColdView]>([
    ['is looked for a node while nothing is known', {}, { phase: 'pending', node: null, progress: null, etaSeconds: null }],
    [
      'is where it was said to be',
      { told: [null, undefined, told({ progress: 41, current_bytes: 41, total_bytes: 100, eta_seconds: 11 })] },
      { phase: 'staging', node: 'gpu-1', progress: { percent: 41, current: 41, total: 100 }, etaSeconds: 11 },
    ],
    [
      'is where events say rather than where it was said to be before, whose bytes say nothing now',
      { model: model('loading'), told: [told({ progress: 41, current_bytes: 41, total_bytes: 100, eta_seconds: 11 })] },
      { phase: 'loading', node: 'gpu-1', progress: null, etaSeconds: null },
    ],
    [
      'is where it was said to be while events are late',
      { model: model('unloaded'), told: [told({ state: 'installing', node: null })] },
      { phase: 'installing', node: null, progress: null, etaSeconds: null },
    ],
    [
      'is as far as the installation of its backend',
      { model: model('installing'), operations: [operation({ backend: 'other', progress: 90 }), operation({})] },
      { phase: 'installing', node: null, progress: { percent: 30, current: 3, total: 10 }, etaSeconds: null },
    ],
    [
      'is as far as the furthest that is known',
      {
        model: model('staging'),
        told: [told({ progress: 20, current_bytes: 2, total_bytes: 10 })],
        operations: [operation({ kind: 'model.load', model: 'm' })],
      },
      { phase: 'staging', node: 'gpu-1', progress: { percent: 30, current: 3, total: 10 }, etaSeconds: null },
    ],
    [
      'has no percentage of nothing',
      { model: model('staging'), told: [told({ progress: 100, total_bytes: 0 })] },
      { phase: 'staging', node: 'gpu-1', progress: null, etaSeconds: null },
    ],
  ])('%s', (_, given, want) => expect(coldView(world(given))).toEqual(want))
})
