import { BackendName, NodeId, OperationId, type Intent } from '@muster/protocol'
import { expect, it } from 'vitest'
import { nodeEndOf, type NodeEnd } from './operation-nodes.pure.ts'

const common = {
  ...{ nodeId: NodeId.parse('n-1'), backend: BackendName.parse('llama'), opId: OperationId.parse('op-1'), kind: 'upgrade' as const },
  ...{ generation: 1, epoch: 1, attempts: 0, isOverdue: false, cancelRequested: false, mayRecreate: false, replaced: [] },
}
const ended = (state: 'applied' | 'failed' | 'dead' | 'cancelled'): Intent => ({
  ...common,
  ...{ state, finishedAt: 0, note: '', lastFailure: { code: 'not_found', retry: 'never', message: 'no such tag' } },
})
const rollback = { error: 'rolled back: ring 1 failed', plan: {} }

it.each<[string, Intent, Parameters<typeof nodeEndOf>[1], Partial<NodeEnd> | null]>([
  ['an open intent', { ...common, state: 'waiting', nextAt: 0, wasSent: false, lastFailure: null }, {}, null],
  ['an applied one', ended('applied'), {}, { status: 'success', error: null }],
  ['a failed one', ended('failed'), {}, { status: 'error', error: 'no such tag', errorCode: 'not_found' }],
  ['one that was given up', ended('dead'), {}, { status: 'error', error: 'no such tag', errorCode: 'not_found' }],
  ['a cancelled one', ended('cancelled'), {}, { status: 'cancelled', error: null }],
  ['an applied rollback', ended('applied'), { rollback }, { status: 'error', error: rollback.error, errorCode: 'rolled_back' }],
  [
    'a failed rollback',
    ended('failed'),
    { rollback },
    { status: 'error', error: 'the rollback failed: no such tag', errorCode: 'not_found' },
  ],
  ['a cancelled rollback', ended('cancelled'), { rollback }, { status: 'cancelled', error: null }],
])('%s is shown so', (_, intent, plan, want) =>
  want === null ? expect(nodeEndOf(intent, plan)).toBeNull() : expect(nodeEndOf(intent, plan)).toMatchObject(want),
)
