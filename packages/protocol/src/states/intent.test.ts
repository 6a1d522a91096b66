import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Failure } from '../failure.ts'
import { BackendName, NodeId, OperationId } from '../ids.ts'
import { backoffMs } from '../backoff.ts'
import { isDue, isOpen, stepIntent, type Intent, type IntentEvent, type OpenIntent, type StepFacts } from './intent.ts'

const facts: StepFacts = { now: 1_000, retry: { baseMs: 30_000, maxMs: 900_000, maxAttempts: 10 }, chance: 0.5 }
const common = {
  nodeId: NodeId.parse('n-1'),
  backend: BackendName.parse('llama'),
  kind: 'install' as const,
  generation: 7,
  epoch: 3,
  opId: OperationId.parse('op-1'),
  attempts: 0,
  lastFailure: null,
  isOverdue: false,
  mayRecreate: false,
  replaced: [],
  cancelRequested: false,
}
const waiting = (over: Partial<Extract<Intent, { state: 'waiting' }>> = {}): OpenIntent => ({
  ...common,
  state: 'waiting',
  nextAt: 900,
  wasSent: false,
  ...over,
})
const sending = (over: Partial<Extract<Intent, { state: 'sending' }>> = {}): OpenIntent => ({
  ...common,
  state: 'sending',
  holder: 'c-1',
  leaseUntil: 5_000,
  ...over,
})
const working = (over: Partial<Extract<Intent, { state: 'working' }>> = {}): OpenIntent => ({
  ...common,
  state: 'working',
  acceptedAt: 500,
  signAt: 600,
  wait: { for: 'result' },
  ...over,
})
const legacy = (over: Partial<Extract<Intent, { state: 'working' }>> = {}): OpenIntent =>
  working({ wait: { for: 'reply', holder: 'c-1', leaseUntil: 5_000 }, ...over })
const ended: Intent = { ...common, state: 'applied', finishedAt: 10, note: '' }

const soft: Failure = { code: 'unavailable', retry: 'backoff', message: 'no' }
const hard: Failure = { code: 'not_found', retry: 'never', message: 'no such' }
const claimed: IntentEvent = { type: 'claimed', holder: 'c-2', leaseUntil: 16_000 }
const failed = (failure: Failure, epoch: number | null = 3): IntentEvent => ({ type: 'failed', failure, epoch })
const cancelled = (epoch: number | null = 3): IntentEvent => ({
  type: 'cancelled_on_worker',
  failure: { code: 'cancelled', retry: 'never', message: 'cancelled on request' },
  epoch,
})
const step = (intent: Intent, event: IntentEvent): Intent | null => stepIntent(intent, event, facts)

describe('an intent', () => {
  it.each<[string, Intent, IntentEvent, Partial<Intent> | null]>([
    ['is claimed when it is due, and that is another try', waiting(), claimed, { state: 'sending', epoch: 4, holder: 'c-2' }],
    ['is not claimed before it is due', waiting({ nextAt: 2_000 }), claimed, null],
    ['is not claimed when it was called off', waiting({ cancelRequested: true, wasSent: true }), claimed, null],
    ['is not claimed twice', sending(), claimed, null],
    ['is not claimed while the worker has it', working(), claimed, null],
    ['is taken on', sending(), { type: 'accepted' }, { state: 'working', attempts: 0 }],
    [
      'that waits for its next attempt is tried now, and keeps its attempts',
      waiting({ nextAt: 9_000, lastFailure: soft, attempts: 3 }),
      { type: 'hurried' },
      { state: 'waiting', nextAt: 1_000, attempts: 3, lastFailure: soft },
    ],
    ['that is due is not hurried', waiting({ lastFailure: soft, attempts: 1 }), { type: 'hurried' }, null],
    ['that has not failed is not hurried', waiting({ nextAt: 9_000 }), { type: 'hurried' }, null],
    [
      'that is being cancelled is not hurried',
      waiting({ nextAt: 9_000, lastFailure: soft, cancelRequested: true }),
      { type: 'hurried' },
      null,
    ],
    ['that the worker has is not hurried', working({ lastFailure: soft }), { type: 'hurried' }, null],
    ['that ended meanwhile is not taken on', ended, { type: 'accepted' }, null],
    [
      'S2.9 whose fate is unknown is sent again, and no attempt is counted',
      sending(),
      { type: 'unheard', againInMs: 50 },
      { state: 'waiting', nextAt: 1_050, attempts: 0, wasSent: true },
    ],
    [
      'A3 whose controller is gone is sent again, and no attempt is counted',
      sending({ leaseUntil: 900 }),
      { type: 'lease_lost' },
      { state: 'waiting', nextAt: 1_000, attempts: 0 },
    ],
    ['whose controller is there stays with it', sending(), { type: 'lease_lost' }, null],
    [
      'S2.8 S2.9 that takes long goes on, and no attempt is counted',
      working(),
      { type: 'overdue', againInMs: 60_000 },
      { state: 'working', isOverdue: true, attempts: 0 },
    ],
    [
      'S2.8 of a silent old worker is looked at again a timeout later',
      legacy(),
      { type: 'overdue', againInMs: 60_000 },
      { isOverdue: true, attempts: 0, wait: { for: 'another_try', nextAt: 61_000 } },
    ],
    [
      'S2.8 of an upgrade on an old worker is not sent again: only its reply is awaited',
      legacy({ kind: 'upgrade' }),
      { type: 'overdue', againInMs: 60_000 },
      { isOverdue: true, attempts: 0, wait: { for: 'reply', holder: 'c-1', leaseUntil: 5_000 } },
    ],
    [
      'whose request was lost is asked again soon',
      legacy(),
      { type: 'unheard', againInMs: 50 },
      { state: 'working', wait: { for: 'another_try', nextAt: 1_050 } },
    ],
    [
      'that the worker does not know is sent again, and no attempt is counted',
      working(),
      { type: 'unknown_to_worker', againInMs: 50 },
      { state: 'waiting', attempts: 0 },
    ],
    [
      'S0.8 that failed waits for its next try',
      working(),
      failed(soft),
      { state: 'waiting', attempts: 1, nextAt: 31_000, lastFailure: soft },
    ],
    [
      'that was refused for good is not tried again, and is not dead',
      sending(),
      failed(hard),
      { state: 'failed', attempts: 1, lastFailure: hard },
    ],
    [
      'deletes the old version first when the disk is too small for both, at once and as if nothing was tried',
      working({ mayRecreate: true, attempts: 2 }),
      failed({ ...soft, code: 'disk_full' }),
      { state: 'waiting', mayRecreate: false, attempts: 0, lastFailure: null, nextAt: facts.now },
    ],
    ['does that once', working({ attempts: 2 }), failed({ ...soft, code: 'disk_full' }), { state: 'waiting', attempts: 3 }],
    ['S0.12 is dead after the last attempt', working({ attempts: 9 }), failed(soft), { state: 'dead', attempts: 10 }],
    ['I6 is not ended by a report of an older attempt', working(), failed(soft, 2), null],
    ['is ended by a worker that names no try', working(), failed(soft, null), { state: 'waiting', attempts: 1 }],
    ['that waits already is not failed again by a late word', waiting({ attempts: 1, wasSent: true }), failed(soft), null],
    ['S0.7 comes true', working(), { type: 'succeeded', note: '' }, { state: 'applied' }],
    [
      'comes true also when nobody expected it any more',
      waiting({ attempts: 2, lastFailure: soft, wasSent: true }),
      { type: 'succeeded', note: '' },
      { state: 'applied', lastFailure: null },
    ],
    ['whose failed try is over is no longer on the worker', working(), failed(soft), { state: 'waiting', wasSent: false }],
    [
      'that was given up may still be on the worker',
      working(),
      { type: 'failed', failure: soft, epoch: 3, mayRun: true },
      { state: 'waiting', wasSent: true },
    ],
    ['that was never sent is cancelled at once', waiting(), { type: 'cancel_requested' }, { state: 'cancelled' }],
    [
      'that was never sent, while the worker may still run superseded work, is called off there first',
      waiting({ replaced: [OperationId.parse('op-0')] }),
      { type: 'cancel_requested' },
      { state: 'waiting', cancelRequested: true, replaced: [OperationId.parse('op-0')] },
    ],
    [
      'that a worker may know of is called off there first',
      waiting({ wasSent: true }),
      { type: 'cancel_requested' },
      { state: 'waiting', cancelRequested: true },
    ],
    ['that runs is called off there first', working(), { type: 'cancel_requested' }, { state: 'working', cancelRequested: true }],
    ['is called off once', working({ cancelRequested: true }), { type: 'cancel_requested' }, null],
    ['that was called off is cancelled when the worker says so', working({ cancelRequested: true }), cancelled(), { state: 'cancelled' }],
    [
      'that was called off is cancelled when the worker does not know it',
      waiting({ cancelRequested: true, wasSent: true }),
      { type: 'unknown_to_worker', againInMs: 0 },
      { state: 'cancelled' },
    ],
    [
      'that was called off and came true first is done',
      working({ cancelRequested: true }),
      { type: 'succeeded', note: '' },
      { state: 'applied' },
    ],
    [
      'that was called off and failed first has failed, and is not tried again',
      working({ cancelRequested: true }),
      failed(soft),
      { state: 'failed' },
    ],
    ['that somebody else cancelled has failed', working(), cancelled(), { state: 'failed' }],
    ['whose stalled try was cancelled waits on', waiting({ attempts: 1, wasSent: true }), cancelled(), null],
    ['S0.14 that is withdrawn is cancelled at once', working(), { type: 'withdrawn', note: 'why' }, { state: 'cancelled', note: 'why' }],
    ['S0.14 that is at its end is not withdrawn', ended, { type: 'withdrawn', note: 'why' }, null],
    ['moves', working(), { type: 'moved' }, { signAt: 1_000 }],
    ['begins a new try with a clean record of time', working({ isOverdue: true }), failed(soft), { isOverdue: false }],
    ['that is at its end stays there', ended, { type: 'succeeded', note: '' }, null],
    ['that is at its end is not called off', ended, { type: 'cancel_requested' }, null],
  ])('%s', (_, intent, event, want) => {
    const next = step(intent, event)
    if (want === null) expect(next).toBeNull()
    else expect(next).toMatchObject(want)
  })

  const events: fc.Arbitrary<IntentEvent> = fc.oneof(
    fc.constantFrom<IntentEvent>(
      claimed,
      { type: 'accepted' },
      { type: 'request_opened', holder: 'c-1', leaseUntil: 1_100 },
      { type: 'unheard', againInMs: 10 },
      { type: 'lease_lost' },
      { type: 'moved' },
      { type: 'overdue', againInMs: 10 },
      { type: 'unknown_to_worker', againInMs: 10 },
      { type: 'succeeded', note: '' },
      { type: 'cancel_requested' },
    ),
    fc.record({ type: fc.constant('failed' as const), failure: fc.constantFrom(soft, hard), epoch: fc.option(fc.nat(20)) }),
    fc.record({ type: fc.constant('cancelled_on_worker' as const), failure: fc.constant(soft), epoch: fc.option(fc.nat(20)) }),
  )
  const history = fc.array(fc.record({ event: events, after: fc.nat(100_000) }), { maxLength: 60 })

  it('I10 I8 whatever happens: ends stay, tries only grow, only failures count, and never beyond the last', () => {
    fc.assert(
      fc.property(history, (happened) => {
        let intent: Intent = waiting()
        let now = 1_000
        for (const { event, after } of happened) {
          now += after
          const next = stepIntent(intent, event, { ...facts, now })
          if (next === null) continue
          expect(isOpen(intent)).toBe(true)
          expect(next.generation).toBe(intent.generation)
          expect(next.epoch).toBe(intent.epoch + (event.type === 'claimed' ? 1 : 0))
          const counts = event.type === 'failed' || event.type === 'cancelled_on_worker'
          expect(next.attempts - intent.attempts).toBeLessThanOrEqual(counts ? 1 : 0)
          expect(next.attempts).toBeGreaterThanOrEqual(intent.attempts)
          expect(next.attempts).toBeLessThanOrEqual(10)
          if (intent.cancelRequested) expect(next.cancelRequested && next.state !== 'sending').toBe(true)
          intent = next
        }
      }),
      { numRuns: 3_000 },
    )
  })

  it('I1 is never stuck: from everything that is open there is a way to its end', () => {
    fc.assert(
      fc.property(history, (happened) => {
        let intent: Intent = waiting()
        let now = 1_000
        const go = (event: IntentEvent): void => {
          intent = stepIntent(intent, event, { ...facts, now }) ?? intent
        }
        for (const { event, after } of happened) {
          now += after
          go(event)
        }
        now += 100_000_000
        go({ type: 'lease_lost' })
        if (isOpen(intent) && isDue(intent, now)) go(claimed)
        go({ type: 'accepted' })
        go(intent.cancelRequested ? { type: 'unknown_to_worker', againInMs: 0 } : { type: 'succeeded', note: '' })
        expect(isOpen(intent)).toBe(false)
      }),
      { numRuns: 3_000 },
    )
  })
})

describe('the pause before the next try', () => {
  const policy = { baseMs: 30_000, maxMs: 900_000, maxAttempts: 10 }
  it.each([
    [1, 30_000],
    [2, 60_000],
    [5, 480_000],
    [6, 900_000],
    [60, 900_000],
  ])('S0.13 after %i failed tries is about %i ms', (attempts, want) => {
    expect(backoffMs(attempts, policy, 0.5)).toBe(want)
    expect(backoffMs(attempts, policy, 0)).toBe(want * 0.9)
    expect(backoffMs(attempts, policy, 0.999)).toBeLessThanOrEqual(want * 1.1)
  })
  it('S0.13 ten tries take more than an hour', () => {
    const total = Array.from({ length: 9 }, (_, n) => backoffMs(n + 1, policy, 0)).reduce((sum, ms) => sum + ms, 0)
    expect(total).toBeGreaterThan(3_600_000)
  })
})
