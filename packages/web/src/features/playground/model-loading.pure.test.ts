import type { BackendName, Loading, ModelName, ModelView, OperationId, OperationView } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { loadingView, type LoadingView, type LoadingSources } from './model-loading.pure.ts'

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
const report = (changes: Partial<Loading>): Loading => ({
  ...{ model: 'm', state: 'staging', node: 'gpu-1', progress: 0, current_bytes: 0, total_bytes: 0 },
  ...changes,
})
const operation = (changes: Partial<OperationView>): OperationView => ({
  ...{ id: 'op' as OperationId, kind: 'backend.install', backend: 'llama', model: null, state: 'running', message: '', progress: 30 },
  ...{ file_name: '', current_bytes: 3, total_bytes: 10, created_at: '', finished_at: null, requested_by: '', nodes: [] },
  ...changes,
})
const sources = (changes: Partial<LoadingSources>): LoadingSources => ({ model: undefined, reports: [], operations: [], ...changes })

describe('a loading model', () => {
  it.each<[string, Partial<LoadingSources>, LoadingView]>([
    ['is pending while nothing is known', {}, { phase: 'pending', node: null, progress: null, etaSeconds: null }],
    [
      'has the phase of the last report',
      { reports: [null, undefined, report({ progress: 41, current_bytes: 41, total_bytes: 100, eta_seconds: 11 })] },
      { phase: 'staging', node: 'gpu-1', progress: { percent: 41, current: 41, total: 100 }, etaSeconds: 11 },
    ],
    [
      'prefers the phase of events, without the bytes of an older report',
      { model: model('loading'), reports: [report({ progress: 41, current_bytes: 41, total_bytes: 100, eta_seconds: 11 })] },
      { phase: 'loading', node: 'gpu-1', progress: null, etaSeconds: null },
    ],
    [
      'has the phase of the report while events are late',
      { model: model('unloaded'), reports: [report({ state: 'installing', node: null })] },
      { phase: 'installing', node: null, progress: null, etaSeconds: null },
    ],
    [
      'has the progress of its backend installation',
      { model: model('installing'), operations: [operation({ backend: 'other', progress: 90 }), operation({})] },
      { phase: 'installing', node: null, progress: { percent: 30, current: 3, total: 10 }, etaSeconds: null },
    ],
    [
      'has the highest known progress',
      {
        model: model('staging'),
        reports: [report({ progress: 20, current_bytes: 2, total_bytes: 10 })],
        operations: [operation({ kind: 'model.load', model: 'm' })],
      },
      { phase: 'staging', node: 'gpu-1', progress: { percent: 30, current: 3, total: 10 }, etaSeconds: null },
    ],
    [
      'has no percentage without a total',
      { model: model('staging'), reports: [report({ progress: 100, total_bytes: 0 })] },
      { phase: 'staging', node: 'gpu-1', progress: null, etaSeconds: null },
    ],
  ])('%s', (_, given, want) => expect(loadingView(sources(given))).toEqual(want))
})
