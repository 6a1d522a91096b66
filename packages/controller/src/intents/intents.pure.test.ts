import {
  BackendName,
  Digest,
  InstalledBackend,
  NodeId,
  OperationId,
  stepIntent,
  type BackendList,
  type CommandReply,
  type Failure,
  type Intent,
  type IntentEvent,
  type OpStatusReply,
} from '@muster/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nothingToFetch, type Plan } from '../store/intent-rows.ts'
import { againInMs, digestToPin, eventOfCancel, eventOfEnd, eventOfReply, eventOfStatus, isSatisfied } from './intents.pure.ts'

const digest = (n: number): Digest => Digest.parse(`sha256:${String(n).repeat(64)}`)
const llama = BackendName.parse('llama')
const common = {
  nodeId: NodeId.parse('n-1'),
  backend: llama,
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
type Working = Extract<Intent, { state: 'working' }>
const working = (over: Partial<Working> = {}): Working => ({
  ...common,
  state: 'working',
  acceptedAt: 0,
  signAt: 10_000,
  wait: { for: 'result' },
  ...over,
})
const waiting: Intent = { ...common, state: 'waiting', nextAt: 0, wasSent: true }
const failure: Failure = { code: 'disk_full', retry: 'backoff', message: 'no room' }

describe('a reply to a command', () => {
  it.each<[string, CommandReply, IntentEvent]>([
    ['S0.7 done', { success: true }, { type: 'succeeded', note: '' }],
    ['taken on', { accepted: true }, { type: 'accepted' }],
    ['refused', { accepted: false, failure }, { type: 'failed', epoch: 3, failure }],
    [
      'S0.25 failed in the words of the original',
      { success: false, error: 'no space' },
      { type: 'failed', epoch: 3, failure: { code: 'internal', retry: 'backoff', message: 'upgrade failed: no space' } },
    ],
    [
      'S0.25 failed without a word',
      { success: false },
      { type: 'failed', epoch: 3, failure: { code: 'internal', retry: 'backoff', message: 'upgrade failed: the worker gave no reason' } },
    ],
  ])('%s', (_, reply, want) => {
    expect(eventOfReply('upgrade', 3, reply)).toEqual(want)
  })
})

const said = (state: OpStatusReply['state'], over: Partial<OpStatusReply> = {}): OpStatusReply => ({ op_id: common.opId, state, ...over })

describe('a report about the end of the work', () => {
  it.each<[string, OpStatusReply, IntentEvent | null]>([
    ['done', said('succeeded', { epoch: 2 }), { type: 'succeeded', note: '' }],
    ['failed', said('failed', { epoch: 2, failure }), { type: 'failed', epoch: 2, failure }],
    ['failed, of no try it names', said('failed', { failure }), { type: 'failed', epoch: null, failure }],
    ['cancelled', said('cancelled', { epoch: 3, failure }), { type: 'cancelled_on_worker', epoch: 3, failure }],
    ['unknown', said('unknown'), null],
    ['waiting there', said('accepted'), null],
    ['running', said('running'), null],
  ])('%s', (_, reply, want) => {
    expect(eventOfEnd(nothingToFetch, reply)).toEqual(want)
  })

  it('that failed without a reason is recorded as such, and tried again', () => {
    expect(eventOfEnd(nothingToFetch, said('failed'))).toMatchObject({ type: 'failed', failure: { code: 'internal', retry: 'backoff' } })
  })

  const path = { ...nothingToFetch, uri: 'file:///srv/llama' }
  it.each<[string, Digest | null, OpStatusReply, string]>([
    ['the pinned content', digest(1), said('succeeded', { source_digest: digest(1) }), 'succeeded'],
    ['other content than the pinned one', digest(1), said('succeeded', { source_digest: digest(2) }), 'integrity never'],
    ['nothing read: any intact version is enough', digest(1), said('succeeded', { digest: digest(2) }), 'succeeded'],
    ['no content is pinned', null, said('succeeded', { source_digest: digest(2) }), 'succeeded'],
  ])('of a path on the node: %s', (_, pinned, reply, want) => {
    const event = eventOfEnd({ ...path, digest: pinned }, reply)
    expect(event?.type === 'failed' ? `${event.failure.code} ${event.failure.retry}` : event?.type).toBe(want)
  })

  it.each<[string, Digest | null, OpStatusReply, Digest | null]>([
    ['read from the source', null, said('succeeded', { generation: 7, source_digest: digest(2) }), digest(2)],
    ['pinned before', digest(1), said('succeeded', { source_digest: digest(2) }), null],
    ['nothing read from the source', null, said('succeeded', { digest: digest(2) }), null],
    ['not installed', null, said('failed', { failure, source_digest: digest(2) }), null],
    ['of another intent', null, said('succeeded', { generation: 6, source_digest: digest(2) }), null],
  ])('pins the operation to its content: %s', (_, pinned, reply, want) => {
    expect(digestToPin({ intent: working(), plan: { ...path, digest: pinned } }, reply)).toBe(want)
  })
})

describe('a status query', () => {
  const quiet = { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: null }
  const downloading = { ...quiet, phase: 'downloading' as const, current: 50, total: 100 }
  const facts = { now: 200_000, quietMs: 5_000, stallMs: 120_000 }
  const same = said('running', { phase: 'downloading', current: 50, total: 100 })
  const unknown: IntentEvent = { type: 'unknown_to_worker', againInMs }
  it.each<[string, Intent, number | null, OpStatusReply, IntentEvent['type'] | null]>([
    ['done meanwhile', working(), 199_000, said('succeeded', { generation: 7 }), 'succeeded'],
    ['unknown there', working(), 199_000, said('unknown'), 'unknown_to_worker'],
    ['of an older intent', working(), 199_000, said('succeeded', { generation: 6 }), 'unknown_to_worker'],
    ['it has moved', working(), 199_000, said('running', { phase: 'downloading', current: 51 }), 'moved'],
    ['another phase', working(), 199_000, said('running', { phase: 'extracting', current: 50 }), 'moved'],
    ['A19 it waits for its turn', working(), 199_000, said('accepted'), 'moved'],
    ['A19 the same for longer than it may be', working(), 199_000, same, 'failed'],
    ['A19 the same, not long enough', working({ signAt: 100_000 }), 199_000, same, null],
    ['the first look only begins the watch', working(), null, same, 'moved'],
    ['the look before was long ago: nobody watched', working(), 100_000, same, 'moved'],
    ['it waits for its next try already', waiting, 199_000, same, null],
  ])('%s', (...[, intent, polledAt, reply, want]) => {
    expect(eventOfStatus({ intent, plan: nothingToFetch, bytes: downloading, polledAt }, reply, facts)?.type ?? null).toBe(want)
  })

  it('A19 a stall may continue on the worker; its message has the time and the bytes', () => {
    const event = eventOfStatus({ intent: working(), plan: nothingToFetch, bytes: downloading, polledAt: 199_000 }, same, facts)
    expect(event).toMatchObject({ type: 'failed', epoch: 3, mayRun: true, failure: { code: 'timeout', retry: 'backoff' } })
    expect(event).toHaveProperty(
      'failure.message',
      expect.stringContaining('no sign of life for 120 s while downloading (50 of 100 bytes)'),
    )
  })

  it('a command that the worker does not know is sent again a little later', () => {
    expect(eventOfStatus({ intent: working(), plan: nothingToFetch, bytes: quiet, polledAt: null }, said('unknown'), facts)).toEqual(
      unknown,
    )
  })
})

describe('an inventory that fulfills an intent', () => {
  const plan = (over: Partial<Plan> = {}): Plan => ({ ...nothingToFetch, uri: 'oci://h/a:1', digest: digest(1), ...over })
  const list = (names: Record<string, Digest>, generation?: number): BackendList => ({
    backends: Object.entries(names).map(([name, found]) => InstalledBackend.parse({ name, digest: found })),
    ...(generation === undefined ? {} : { generations: { [llama]: generation } }),
  })
  const damaged: BackendList = {
    backends: [InstalledBackend.parse({ name: 'llama', digest: digest(1), damaged: true })],
    generations: { [llama]: 7 },
  }
  const upgrade = working({ kind: 'upgrade' })
  const remove = working({ kind: 'delete' })
  it.each<[string, Intent, Plan, BackendList, boolean]>([
    ['installed', working(), plan(), list({ llama: digest(1) }, 7), true],
    ['any version will do', working(), plan(), list({ llama: digest(2) }, 7), true],
    ['this version was asked for', working(), plan({ exact: true }), list({ llama: digest(2) }, 7), false],
    ['this version is there', working(), plan({ exact: true }), list({ llama: digest(1) }, 7), true],
    ['not installed', working(), plan(), list({}, 7), false],
    ['from a path, of unknown content', working(), plan({ uri: 'file:///a', digest: null }), list({ llama: digest(1) }, 7), false],
    ['from a path, of the pinned content', working(), plan({ uri: 'file:///a' }), list({ llama: digest(1) }, 7), true],
    ['from a path, of other content', working(), plan({ uri: 'file:///a' }), list({ llama: digest(2) }, 7), false],
    ['from a path, by an old worker', working(), plan({ uri: 'file:///a', digest: null }), list({ llama: digest(2) }), true],
    ['by its concrete name', working(), plan({ name: BackendName.parse('cpu-llama') }), list({ 'cpu-llama': digest(1) }, 7), true],
    ['A9 listed before the worker knew of this intent', working(), plan(), list({ llama: digest(1) }, 6), false],
    ['A9 unknown to the worker', working(), plan(), { ...list({ llama: digest(1) }), generations: {} }, false],
    ['a later intent is in it too', working(), plan(), list({ llama: digest(1) }, 8), true],
    ['an old worker numbers nothing', working(), plan(), list({ llama: digest(1) }), true],
    ['not taken on yet', waiting, plan(), list({ llama: digest(1) }, 6), false],
    ['not taken on yet, by an old worker', waiting, plan(), list({ llama: digest(1) }), false],
    ['S2.13 accepted, with a lost reply', waiting, plan(), list({ llama: digest(1) }, 7), true],
    ['an upgrade that waits may have to repair it', { ...waiting, kind: 'upgrade' }, plan(), list({ llama: digest(1) }, 7), false],
    ['upgraded', upgrade, plan(), list({ llama: digest(1) }, 7), true],
    ['not upgraded', upgrade, plan(), list({ llama: digest(2) }, 7), false],
    ['upgraded to what only the worker knows', upgrade, plan({ digest: null }), list({ llama: digest(2) }, 7), false],
    ['installed, and damaged since', working(), plan(), damaged, false],
    ['upgraded, and damaged since', upgrade, plan(), damaged, false],
    ['not deleted, only damaged', remove, nothingToFetch, damaged, false],
    ['deleted', remove, nothingToFetch, list({ other: digest(1) }, 7), true],
    ['not deleted', remove, nothingToFetch, list({ llama: digest(1) }, 7), false],
  ])('%s', (...[, intent, target, listed, want]) => {
    expect(isSatisfied({ intent, plan: target }, listed)).toBe(want)
  })
})

describe('a cancel request', () => {
  const cancelling = working({ cancelRequested: true })
  it.each<[string, OpStatusReply, IntentEvent | null]>([
    ['confirmed', said('cancelled', { epoch: 3, failure }), { type: 'cancelled_on_worker', epoch: 3, failure }],
    ['after its true end', said('succeeded', { generation: 7 }), { type: 'succeeded', note: '' }],
    ['not confirmed yet', said('running'), null],
    ['of unknown work', said('unknown'), { type: 'unknown_to_worker', againInMs: 0 }],
    ['of another generation', said('succeeded', { generation: 6 }), { type: 'unknown_to_worker', againInMs: 0 }],
  ])('%s', (_, reply, want) => {
    expect(eventOfCancel({ intent: cancelling, plan: nothingToFetch }, reply)).toEqual(want)
  })
})

it('the same reply, decided and applied twice, is the same as once', () => {
  const replies = fc.record(
    {
      op_id: fc.constant(common.opId),
      state: fc.constantFrom<OpStatusReply['state'][]>('unknown', 'accepted', 'running', 'succeeded', 'failed', 'cancelled'),
      phase: fc.constantFrom<NonNullable<OpStatusReply['phase']>[]>('downloading', 'extracting'),
      current: fc.nat(100),
      progress_seq: fc.nat(5),
      generation: fc.constantFrom(6, 7),
      epoch: fc.constantFrom(2, 3),
    },
    { requiredKeys: ['op_id', 'state'] },
  )
  const intents = fc.constantFrom<Intent[]>(working(), working({ cancelRequested: true }), waiting, {
    ...common,
    state: 'sending',
    holder: 'c',
    leaseUntil: 300_000,
  })
  const limits = { now: 200_000, quietMs: 5_000, stallMs: 120_000 }
  const bytes = { phase: 'downloading' as const, fileName: '', current: 50, total: 100, percentage: 0, seq: 3 }
  const step = { now: limits.now, retry: { baseMs: 1_000, maxMs: 1_000, maxAttempts: 10 }, chance: 0.5 }
  fc.assert(
    fc.property(intents, replies, fc.constantFrom(null, 199_000), (intent, reply, polledAt) => {
      const apply = (before: Intent): Intent => {
        const event = eventOfStatus({ intent: before, plan: nothingToFetch, bytes, polledAt }, reply, limits)
        return event === null ? before : (stepIntent(before, event, step) ?? before)
      }
      const once = apply(intent)
      expect(apply(once)).toEqual(once)
    }),
  )
})
