import { ModelConfig, NodeId, type ModelState } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { LoadBrief } from '../store/load-rows.ts'
import type { ModelRecord } from '../store/models.ts'
import { loadingOf, stateOf, viewModel } from './view.ts'

const load = (fields: Partial<LoadBrief> = {}): LoadBrief => ({
  ...{
    purpose: 'serve',
    ordinal: 0,
    state: 'waiting',
    phase: null,
    nodeId: null,
    nodeName: null,
    operationId: null,
    pin: null,
    opId: null,
    fileName: '',
    currentBytes: 0,
    totalBytes: 0,
  },
  ...{ attempts: 0, failure: null, failedAt: null, nextAt: null, note: '' },
  ...fields,
})
const failure = { code: 'integrity', retry: 'never', message: 'another sha256' } as const
const failed = load({ state: 'failed', failure, failedAt: '2026-01-01T00:00:00.000Z', nextAt: null, attempts: 3 })
const starting = (phase: LoadBrief['phase']): LoadBrief => load({ state: 'starting', phase, nodeId: NodeId.parse('n'), nodeName: 'gpu-1' })

const model = (fields: Partial<ModelRecord> = {}): ModelRecord => {
  const config = ModelConfig.parse({ name: 'm', backend: 'llama' })
  return {
    name: config.name,
    config,
    revision: 'r',
    backend: 'llama',
    requestedReplicas: 0,
    isUnloaded: false,
    usedAt: null,
    ready: 0,
    loads: [],
    ...fields,
  }
}

describe('a model is', () => {
  it.each<[ModelState, string, LoadBrief[], number]>([
    ['unloaded', 'when there is nothing', [], 0],
    ['ready', 'when one replica is', [], 1],
    ['ready', 'also while others come up or fail', [failed, starting('downloading')], 1],
    ['pending', 'while it waits for a place', [load()], 0],
    ['pending', 'when the ready replica cannot be reached', [load({ state: 'ready' })], 0],
    ['installing', 'while its backend is installed', [load({ state: 'installing' })], 0],
    ['staging', 'once it was sent', [starting(null)], 0],
    ['staging', 'while its files are fetched', [starting('downloading')], 0],
    ['staging', 'while they are looked for', [starting('resolving')], 0],
    ['loading', 'while its process starts', [starting('starting')], 0],
    ['failed', 'when that failed', [failed], 0],
    ['pending', 'when another slot is still to be tried', [failed, load({ ordinal: 1 })], 0],
    ['loading', 'as far as the furthest', [load(), starting('starting'), starting('downloading')], 0],
    ['staging', 'while files are staged and nothing is started', [{ ...starting('downloading'), purpose: 'stage' }], 0],
    ['unloaded', 'when files were staged', [load({ purpose: 'stage', state: 'ready' })], 0],
    ['unloaded', 'when files could not be staged: nothing was to be served', [{ ...failed, purpose: 'stage' }], 0],
  ])('%s %s', (want, _, loads, ready) => {
    expect(stateOf({ loads, ready, isUnloaded: false })).toBe(want)
  })

  it.each<[ModelState, string, LoadBrief[]]>([
    ['unloaded', 'while the load of its exited replica is still there', [load({ state: 'ready' })]],
    ['unloaded', 'while a load that waits or failed is still there', [load(), failed]],
    ['loading', 'while a process still starts', [starting('starting')]],
    ['pending', 'while files are to be staged', [load({ purpose: 'stage' })]],
  ])('%s after an unload %s', (want, _, loads) => {
    expect(stateOf({ loads, ready: 0, isUnloaded: true })).toBe(want)
  })
})

it('shows why it failed, and when it is tried again', () => {
  expect(viewModel(model({ loads: [failed] }), 0)).toMatchObject({
    ...{ state: 'failed', replicas_ready: 0, replicas_desired: 0 },
    failure: { code: 'integrity', message: 'another sha256', at: '2026-01-01T00:00:00.000Z', next_retry_at: null, attempts: 3 },
  })
  expect(viewModel(model({ loads: [{ ...failed, nextAt: 'then' }] }), 0).failure?.next_retry_at).toBe('then')
})

it('is ready with a failure when another replica could not start beside a serving one', () => {
  const shown = viewModel(model({ ready: 1, loads: [load({ state: 'ready' }), { ...failed, ordinal: 1 }] }), 0)
  expect(shown).toMatchObject({ state: 'ready', replicas_ready: 1, failure: { code: 'integrity', message: 'another sha256' } })
})

it('shows the loading progress, and guesses nothing', () => {
  const loads = [{ ...starting('downloading'), currentBytes: 410, totalBytes: 1000 }]
  expect(loadingOf(model({ loads }))).toEqual({
    ...{ model: 'm', state: 'staging', node: 'gpu-1', progress: 41, current_bytes: 410, total_bytes: 1000, failure: null },
  })
  expect(loadingOf(model({ loads: [{ ...starting('starting'), currentBytes: 1000, totalBytes: 1000 }] })).progress).toBe(99)
  expect(loadingOf(model({ ready: 1 })).progress).toBe(100)
  expect(loadingOf(model())).toMatchObject({ state: 'unloaded', node: null, progress: 0 })
})
