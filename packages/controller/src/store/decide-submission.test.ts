import { BackendName, Digest, NodeId, OperationId, type Intent } from '@muster/protocol'
import { expect, it } from 'vitest'
import { decideSubmission, type SubmissionDecision, type RequestedIntent } from './operation-nodes.pure.ts'
import { nothingToFetch, type Plan } from './intent-rows.ts'

const digest = (n: number): Digest => Digest.parse(`sha256:${String(n).repeat(64)}`)
const plan = (over: Partial<Plan> = {}): Plan => ({ ...nothingToFetch, uri: 'oci://h/a:1', digest: digest(1), ...over })
const common = {
  nodeId: NodeId.parse('n-1'),
  backend: BackendName.parse('llama'),
  kind: 'install' as const,
  generation: 1,
  epoch: 1,
  opId: OperationId.parse('op-1'),
  attempts: 0,
  lastFailure: null,
  isOverdue: false,
  mayRecreate: false,
  replaced: [],
  cancelRequested: false,
}
const waiting: Intent = { ...common, state: 'waiting', nextAt: 5, wasSent: false }
const working: Intent = { ...common, state: 'working', acceptedAt: 1, signAt: 1, wait: { for: 'result' } }
const applied: Intent = { ...common, state: 'applied', finishedAt: 1, note: '' }
const install: RequestedIntent = { kind: 'install', plan: plan() }
const remove: RequestedIntent = { kind: 'delete', plan: nothingToFetch }

it.each<[string, RequestedIntent, { intent: Intent; plan: Plan; isProving?: boolean } | null, SubmissionDecision]>([
  ['the first of all', install, null, 'take_over'],
  ['S0.16 the same, which waits', install, { intent: waiting, plan: plan() }, 'attach'],
  ['S0.16 the same, which runs', install, { intent: working, plan: plan() }, 'attach'],
  ['the same from elsewhere', { kind: 'install', plan: plan({ uri: 'oci://mirror/a:1' }) }, { intent: working, plan: plan() }, 'attach'],
  ['the same, which is over', install, { intent: applied, plan: plan() }, 'take_over'],
  [
    'the same upgrade, whose node is still watched',
    { kind: 'upgrade', plan: plan() },
    { intent: { ...applied, kind: 'upgrade' }, plan: plan(), isProving: true },
    'attach',
  ],
  [
    'another upgrade, where one is still watched',
    { kind: 'upgrade', plan: plan({ digest: digest(2) }) },
    { intent: { ...applied, kind: 'upgrade' }, plan: plan(), isProving: true },
    'take_over',
  ],
  ['the same, which was called off', install, { intent: { ...working, cancelRequested: true }, plan: plan() }, 'take_over'],
  ['another content', { kind: 'install', plan: plan({ digest: digest(2) }) }, { intent: waiting, plan: plan() }, 'take_over'],
  ['a version that was asked for', { kind: 'install', plan: plan({ exact: true }) }, { intent: waiting, plan: plan() }, 'take_over'],
  ['an upgrade', { kind: 'upgrade', plan: plan() }, { intent: working, plan: plan() }, 'take_over'],
  ['W6 the opposite', remove, { intent: working, plan: plan() }, 'take_over'],
  ['a deletion again', remove, { intent: { ...working, kind: 'delete' }, plan: nothingToFetch }, 'attach'],
  [
    'a directory of the worker again',
    { kind: 'install', plan: plan({ uri: 'file:///a', digest: null }) },
    { intent: waiting, plan: plan({ uri: 'file:///a', digest: null }) },
    'attach',
  ],
  [
    'another directory of the worker',
    { kind: 'install', plan: plan({ uri: 'file:///b', digest: null }) },
    { intent: waiting, plan: plan({ uri: 'file:///a', digest: null }) },
    'take_over',
  ],
])('a submission meets: %s', (...[, requested, row, want]) => {
  expect(decideSubmission(requested, row === null ? null : { isProving: false, ...row })).toBe(want)
})
