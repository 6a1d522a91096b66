// An install of ten minutes under a timeout of two seconds, in virtual time: the decisions of a controller about the replies that
// a worker would give.
import { stillInstallingMessage, isOpen, viewOpenIntent, stepIntent, type Intent, type IntentEvent } from '@muster/protocol'
import { BackendName, NodeId, OperationId } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { nothingToFetch } from '../store/intent-rows.ts'
import { eventOfStatus } from './intents.pure.ts'

const timeoutMs = 2_000
const stallMs = 120_000
const quietMs = 5_000
const retry = { baseMs: 30_000, maxMs: 900_000, maxAttempts: 10 }
const healthy = { status: 'healthy' as const, isAnswering: true, lastSeenAt: null }
const waiting: Intent = {
  nodeId: NodeId.parse('n-1'),
  backend: BackendName.parse('llama'),
  kind: 'install',
  generation: 1,
  epoch: 0,
  opId: OperationId.parse('op-1'),
  attempts: 0,
  lastFailure: null,
  isOverdue: false,
  mayRecreate: false,
  replaced: [],
  cancelRequested: false,
  state: 'waiting',
  nextAt: 0,
  wasSent: false,
}

type ShownState = Readonly<{ at: number; status: string; attempts: number }>

/** One try from its claim on. All progress messages are lost, so the worker is queried every few seconds. */
function live(from: Intent, beganAt: number, workMs: number): { intent: Intent; shown: ShownState[]; now: number } {
  let intent = from
  let now = beganAt
  let polledAt: number | null = null
  const shown: ShownState[] = []
  const move = (event: IntentEvent | null): void => {
    if (event !== null) intent = stepIntent(intent, event, { now, retry, chance: 0.5 }) ?? intent
  }
  move({ type: 'claimed', holder: 'c', leaseUntil: now + 8_000 })
  move({ type: 'accepted' })
  for (; isOpen(intent) && now < beganAt + 3_600_000; now += 500) {
    if (intent.state === 'working' && !intent.isOverdue && now - intent.acceptedAt >= timeoutMs)
      move({ type: 'overdue', againInMs: timeoutMs })
    if (now - (polledAt ?? beganAt) >= quietMs) {
      const { opId: op_id, generation, epoch } = intent
      const current = Math.floor(((now - beganAt) / workMs) * 1_000)
      const isDone = now - beganAt >= workMs
      const reply = isDone
        ? { op_id, generation, epoch, state: 'succeeded' as const }
        : { op_id, generation, epoch, state: 'running' as const, phase: 'downloading' as const, current, total: 1_000 }
      const bytes = { phase: 'downloading' as const, fileName: '', current: 0, total: 1_000, percentage: 0, seq: null }
      move(eventOfStatus({ intent, plan: nothingToFetch, bytes, polledAt }, reply, { now, quietMs, stallMs }))
      polledAt = now
    }
    if (isOpen(intent)) shown.push({ at: now - beganAt, status: viewOpenIntent(intent, healthy, true).status, attempts: intent.attempts })
  }
  return { intent, shown, now }
}

describe('ten minutes of work under a timeout of two seconds', () => {
  it('S2.7 S2.9 A17 is running_on_worker from then on, costs no attempt, and keeps its outcome', () => {
    const { intent, shown } = live(waiting, 0, 600_000)
    expect(intent).toMatchObject({ state: 'applied', attempts: 0, epoch: 1 })
    expect(shown.filter(({ at }) => at < timeoutMs).every(({ status }) => status === 'downloading')).toBe(true)
    expect(shown.filter(({ at }) => at > timeoutMs).every(({ status, attempts }) => status === 'running_on_worker' && attempts === 0)).toBe(
      true,
    )
    expect(shown.at(-1)?.at).toBeGreaterThan(590_000)
  })

  it('W4 is the same on a retry: the attempt before counts, this one does not', () => {
    const failure = { code: 'unavailable' as const, retry: 'backoff' as const, message: 'the registry is down' }
    const sent = stepIntent(waiting, { type: 'claimed', holder: 'c', leaseUntil: 9 }, { now: 0, retry, chance: 0.5 })
    const failed = sent === null ? null : stepIntent(sent, { type: 'failed', failure, epoch: 1 }, { now: 1, retry, chance: 0.5 })
    if (failed?.state !== 'waiting') throw new Error('it waits for its next try')
    const { intent, shown } = live(failed, failed.nextAt, 600_000)
    expect(intent).toMatchObject({ state: 'applied', attempts: 1, epoch: 2 })
    expect(shown.every(({ attempts }) => attempts === 1)).toBe(true)
    expect(shown.some(({ status }) => status === 'running_on_worker')).toBe(true)
  })

  it('S2.12 shows the state in its message', () => {
    expect(
      viewOpenIntent({ ...waiting, isOverdue: true, state: 'working', acceptedAt: 0, signAt: 0, wait: { for: 'result' } }, healthy, true)
        .message,
    ).toBe(stillInstallingMessage)
  })
})
