import { describe, expect, it } from 'vitest'
import type { Failure } from '../failure.ts'
import { BackendName, NodeId, OperationId } from '../ids.ts'
import type { OpenIntent } from './intent.ts'
import { viewOpenIntent, operationState, type NodePresence, type NodeOutcome } from './operation.ts'

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
const failure: Failure = { code: 'unavailable', retry: 'backoff', message: 'the registry is away' }
const fresh: OpenIntent = { ...common, state: 'waiting', nextAt: 5, wasSent: false }
const failed: OpenIntent = { ...fresh, attempts: 1, lastFailure: failure, wasSent: true }
const sending: OpenIntent = { ...common, state: 'sending', holder: 'c', leaseUntil: 9 }
const working: OpenIntent = { ...common, state: 'working', acceptedAt: 1, signAt: 1, wait: { for: 'result' } }
const legacy: OpenIntent = { ...working, wait: { for: 'reply', holder: 'c', leaseUntil: 9 } }

const lastSeenAt = '2026-01-01T12:00:00.000Z'
const healthy: NodePresence = { status: 'healthy', isAnswering: true, lastSeenAt }
const silent: NodePresence = { status: 'unhealthy', isAnswering: true, lastSeenAt }
const mute: NodePresence = { status: 'unhealthy', isAnswering: false, lastSeenAt }
const offline: NodePresence = { status: 'offline', isAnswering: true, lastSeenAt }
const draining: NodePresence = { status: 'draining', isAnswering: true, lastSeenAt }

describe('a node of an operation', () => {
  it.each<[string, OpenIntent, NodePresence, boolean, string, string]>([
    ['not sent yet', fresh, healthy, false, 'queued', ''],
    ['S2.48 sent without a reply', sending, healthy, false, 'queued', ''],
    ['S2.48 its progress arrives before its answer', sending, healthy, true, 'downloading', ''],
    ['S2.36 S2.48 in work, whatever the phase', working, healthy, false, 'downloading', ''],
    ['S2.27 an old worker says nothing', legacy, healthy, false, 'queued', ''],
    ['an old worker that reports progress', legacy, healthy, true, 'downloading', ''],
    [
      'S2.7 after the timeout',
      { ...working, isOverdue: true },
      healthy,
      true,
      'running_on_worker',
      'worker still installing in background',
    ],
    [
      'S2.48 after the timeout, and silent',
      { ...working, isOverdue: true },
      silent,
      true,
      'running_on_worker',
      `node unhealthy, last heard ${lastSeenAt}; result unknown`,
    ],
    [
      'after the timeout, and never heard',
      { ...working, isOverdue: true },
      { ...offline, lastSeenAt: null },
      true,
      'running_on_worker',
      'node offline, never heard; result unknown',
    ],
    [
      'after the timeout, and drained, which does not end the work',
      { ...working, isOverdue: true },
      draining,
      true,
      'running_on_worker',
      'worker still installing in background',
    ],
    ['S0.6 offline', fresh, offline, false, 'queued', 'node offline, will retry when healthy'],
    ['S0.6 silent', fresh, silent, false, 'queued', 'node unhealthy, will retry when healthy'],
    ['S0.6 draining', fresh, draining, false, 'queued', 'node draining, will retry when healthy'],
    ['S0.6 silent while it is being sent', sending, offline, false, 'queued', 'node offline, will retry when healthy'],
    ['drained while it is being sent', sending, draining, false, 'queued', ''],
    ['silent in the middle of its work', working, silent, true, 'queued', 'node unhealthy, will retry when healthy'],
    ['drained in the middle of its work, which goes on', working, draining, true, 'downloading', ''],
    ['S0.8 S0.33 failed, with a next try', failed, healthy, false, 'error', 'the registry is away'],
    ['S0.9 met no responders, with a next try', failed, mute, false, 'error', 'the registry is away'],
    ['failed, and silent since', failed, silent, false, 'queued', 'node unhealthy, will retry when healthy'],
    ['called off while it runs', { ...working, cancelRequested: true }, healthy, true, 'downloading', 'cancelling'],
  ])('%s', (...[, intent, node, hasProgress, status, message]) => {
    expect(viewOpenIntent(intent, node, hasProgress)).toMatchObject({ status, message })
  })

  it('S0.33 shows the time of the next attempt', () => {
    expect(viewOpenIntent(failed, healthy, false).nextRetryAt).toBe(5)
    expect(viewOpenIntent(fresh, healthy, false).nextRetryAt).toBeNull()
  })
})

describe('an operation', () => {
  const row = (status: NodeOutcome['status'], node: NodePresence | null = healthy, nextRetryAt: number | null = null): NodeOutcome => ({
    status,
    node,
    nextRetryAt,
  })
  it.each<[string, NodeOutcome[], string]>([
    ['queued on a healthy node', [row('queued'), row('success', null)], 'running'],
    ['in work', [row('downloading')], 'running'],
    ['queued on a node that is away', [row('queued', offline), row('success', null)], 'background'],
    ['S2.12 still going on after the timeout', [row('running_on_worker')], 'background'],
    ['waiting for its next try', [row('error', healthy, 5)], 'background'],
    ['one failed', [row('error', null), row('success', null)], 'failed'],
    ['one failed, another is in work', [row('error', null), row('downloading')], 'running'],
    ['some succeeded, others were skipped or cancelled', [row('success', null), row('skipped', null), row('cancelled', null)], 'succeeded'],
    ['all cancelled or skipped', [row('cancelled', null), row('skipped', null)], 'cancelled'],
    ['all skipped', [row('skipped', null)], 'failed'],
  ])('%s', (_, rows, want) => {
    expect(operationState(rows)).toBe(want)
  })
})
