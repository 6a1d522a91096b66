import { NodeId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import type { LoadBrief } from '../store/load-rows.ts'
import { statusOfOperation } from './nodes.pure.ts'

const load = (fields: Partial<LoadBrief>): LoadBrief => ({
  ...{ purpose: 'serve', ordinal: 0, state: 'waiting', phase: null, nodeId: null, nodeName: null, opId: null, fileName: '' },
  ...{ operationId: null, pin: null },
  ...{ currentBytes: 0, totalBytes: 0, attempts: 0, failure: null, failedAt: null, nextAt: null, note: '' },
  ...fields,
})
const nodeId = NodeId.parse('a')
const nowhere = load({ state: 'failed' })
const staged = (state: LoadBrief['state']): LoadBrief => load({ purpose: 'stage', state })

describe('the state of an open operation about a model', () => {
  const about = { outcome: null, message: '', current: 0, total: 0, cancelRequested: false, replicas: 1 }

  it.each<[string, 'model.load' | 'model.install' | 'model.unload', readonly LoadBrief[], 'running' | 'background']>([
    ['a load that waits for a node', 'model.load', [load({})], 'running'],
    ['a load that is not created yet', 'model.load', [], 'running'],
    ['a load that found no node and is tried again later', 'model.load', [nowhere], 'background'],
    ['a load that failed on a node', 'model.load', [load({ state: 'failed', nodeId })], 'running'],
    ['a second load that goes on', 'model.load', [nowhere, load({ state: 'starting', nodeId })], 'running'],
    ['loads that are ready or found no node', 'model.load', [nowhere, load({ state: 'ready', nodeId })], 'background'],
    ['files that are fetched', 'model.install', [staged('starting')], 'running'],
    ['files that failed and are fetched again later', 'model.install', [staged('failed')], 'background'],
    ['an unload, whatever the loads are', 'model.unload', [nowhere], 'running'],
  ])('%s', (_, kind, loads, want) => {
    expect(statusOfOperation({ kind, pausedAt: null, job: { ...about, loads } }, [])).toBe(want)
  })

  it.each<[string, readonly LoadBrief[], 'running' | 'background']>([
    ['waits in the background', [staged('waiting')], 'background'],
    ['runs while a node fetches the files', [staged('starting')], 'running'],
  ])('a paused install %s', (_, loads, want) => {
    expect(statusOfOperation({ kind: 'model.install', pausedAt: 'then', job: { ...about, loads } }, [])).toBe(want)
  })

  it('is its outcome once it has one', () => {
    expect(statusOfOperation({ kind: 'model.load', pausedAt: null, job: { ...about, outcome: 'failed', loads: [nowhere] } }, [])).toBe(
      'failed',
    )
  })
})
