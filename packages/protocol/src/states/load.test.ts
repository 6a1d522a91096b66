import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Failure } from '../failure.ts'
import { ModelName, NodeId, OperationId, ReplicaId } from '../ids.ts'
import { isLoadDue, loadRetry, noCapacityRetryMs, steadyMs, stepLoad, type Load, type LoadEvent, type LoadState } from './load.ts'

const now = 1_000_000
const facts = { now, chance: 0.5 }
const nodeId = NodeId.parse('n-1')
const opId = OperationId.parse('ld-1')
const replicaId = ReplicaId.parse('r-1')
const installId = OperationId.parse('op-1')
const common = {
  ...{ model: ModelName.parse('tiny'), purpose: 'serve' as const, ordinal: 0, revision: 'rev-1', epoch: 3, attempts: 0 },
  ...{ pin: NodeId.parse('n-1'), needsCheck: false, isRoomMade: false, note: '' },
  lease: { holder: 'c-1', until: now + 5_000 },
}
const soft: Failure = { code: 'internal', retry: 'backoff', message: 'out of memory' }
const hard: Failure = { code: 'integrity', retry: 'never', message: 'wrong hash' }
const nowhere: Failure = { code: 'no_capacity', retry: 'backoff', message: 'no node' }

const states: Readonly<Record<LoadState, Load>> = {
  waiting: { ...common, state: 'waiting', nextAt: now - 1 },
  installing: { ...common, state: 'installing', nodeId, installId, nextAt: now - 1 },
  starting: { ...common, state: 'starting', nodeId, opId, replicaId, signAt: now - 3_000, nextAt: now - 1 },
  ready: { ...common, lease: null, state: 'ready', nodeId, opId, replicaId, readyAt: now - 10 },
  failed: { ...common, state: 'failed', failure: soft, failedAt: now - 5_000, nextAt: now + 5_000, nodeId },
}
const events = {
  claimed: { type: 'claimed', holder: 'c-2', leaseUntil: now + 8_000 },
  install_submitted: { type: 'install_submitted', nodeId, installId },
  placed: { type: 'placed', nodeId, opId, replicaId },
  looked: { type: 'looked', againInMs: 2_000 },
  installed: { type: 'installed' },
  install_failed: { type: 'install_failed', failure: soft },
  backend_arrived: { type: 'backend_arrived' },
  install_gone: { type: 'install_gone', againInMs: 2_000 },
  accepted: { type: 'accepted', quietMs: 5_000 },
  unheard: { type: 'unheard', againInMs: 1_000 },
  moved: { type: 'moved', quietMs: 5_000 },
  ready: { type: 'ready' },
  failed: { type: 'failed', failure: soft },
  slot_taken: { type: 'slot_taken', againInMs: 500 },
  no_responders: { type: 'no_responders', againInMs: 500 },
  given_up: { type: 'given_up', failure: soft },
  exited: { type: 'exited', failure: soft, wasCommanded: false },
  check_failed: { type: 'check_failed', failure: soft },
  room_requested: { type: 'room_requested', made: 'the old one goes first', againInMs: 500 },
  unpinned: { type: 'unpinned' },
  node_away: { type: 'node_away' },
  returned: { type: 'returned', nodeId, replicaId, opId, isReady: true },
  revision_changed: { type: 'revision_changed', revision: 'rev-2' },
  hurried: { type: 'hurried', isFresh: false },
  unwanted: { type: 'unwanted' },
} as const satisfies { [T in LoadEvent['type']]: Extract<LoadEvent, { type: T }> }

/** The whole table: what each event makes of each state; a dash where it means nothing. */
const table: Readonly<Record<LoadEvent['type'], readonly [string, string, string, string, string]>> = {
  // In the order: waiting, installing, starting, ready, failed.
  claimed: ['-', '-', '-', '-', '-'],
  install_submitted: ['installing', '-', '-', '-', 'installing'],
  placed: ['starting', '-', '-', '-', 'starting'],
  looked: ['waiting', 'installing', 'starting', '-', '-'],
  installed: ['-', 'waiting', '-', '-', '-'],
  install_failed: ['-', 'failed', '-', '-', '-'],
  backend_arrived: ['-', '-', '-', '-', '-'],
  install_gone: ['-', 'waiting', '-', '-', '-'],
  accepted: ['-', '-', 'starting', '-', '-'],
  unheard: ['-', '-', 'starting', '-', '-'],
  moved: ['-', '-', 'starting', '-', '-'],
  ready: ['-', '-', 'ready', '-', '-'],
  failed: ['failed', 'failed', 'failed', '-', 'failed'],
  slot_taken: ['-', '-', 'waiting', '-', '-'],
  no_responders: ['-', '-', 'waiting', '-', '-'],
  given_up: ['-', '-', 'failed', '-', '-'],
  exited: ['-', '-', 'failed', 'waiting', '-'],
  check_failed: ['-', '-', '-', 'failed', '-'],
  room_requested: ['waiting', '-', '-', '-', 'waiting'],
  unpinned: ['waiting', '-', '-', '-', 'waiting'],
  node_away: ['-', 'waiting', 'waiting', 'waiting', '-'],
  returned: ['ready', 'ready', '-', '-', 'ready'],
  revision_changed: ['waiting', 'waiting', 'waiting', 'waiting', 'waiting'],
  hurried: ['-', '-', '-', '-', 'failed'],
  unwanted: ['gone', 'gone', 'gone', 'gone', 'gone'],
}
const order: readonly LoadState[] = ['waiting', 'installing', 'starting', 'ready', 'failed']
const pairs = Object.entries(table).flatMap(([event, row]) => row.map((want, index) => [event, order[index] ?? 'waiting', want] as const))

describe('a load', () => {
  it.each(pairs)('%s while %s: %s', (event, state, want) => {
    const after = stepLoad(states[state], events[event as LoadEvent['type']], facts)
    expect(after === null ? '-' : after === 'gone' ? after : after.state).toBe(want)
  })

  const free = (load: Load): Load => ({ ...load, lease: null })
  it.each<[string, Load, LoadEvent, Partial<Load> | null]>([
    ['is claimed when it is due', free(states.waiting), events.claimed, { state: 'waiting', lease: { holder: 'c-2', until: now + 8_000 } }],
    [
      'is claimed when its holder is gone',
      { ...states.starting, lease: { holder: 'c-1', until: now - 1 } },
      events.claimed,
      { state: 'starting' },
    ],
    ['is not claimed before it is due', { ...free(states.waiting), nextAt: now + 1 } as Load, events.claimed, null],
    ['is not claimed when nothing can heal it', { ...free(states.failed), nextAt: null } as Load, events.claimed, null],
    [
      'is another try when it is placed, under the same lease',
      states.waiting,
      events.placed,
      { epoch: 4, lease: common.lease, signAt: now },
    ],
    ['lives on when its worker took it on', states.starting, events.accepted, { signAt: now, nextAt: now + 5_000, lease: null }],
    ['has not moved by being looked at', states.starting, events.looked, { signAt: now - 3_000, lease: null }],
    [
      'S1.17 is tried again 5 s after the first failure',
      states.starting,
      events.failed,
      { attempts: 1, nextAt: now + 5_000, failure: soft, nodeId },
    ],
    ['waits twice as long each time', { ...states.starting, attempts: 3 }, events.failed, { attempts: 4, nextAt: now + 40_000 }],
    ['waits 5 min at most', { ...states.starting, attempts: 30 }, events.failed, { attempts: 31, nextAt: now + 300_000 }],
    [
      'that is permanent has no next attempt',
      states.starting,
      { type: 'failed', failure: hard },
      { attempts: 1, nextAt: null, failure: hard },
    ],
    [
      'that failed for good for lack of its backend is tried again when the backend arrives',
      { ...states.failed, attempts: 3, nextAt: null, failure: { ...hard, source: 'backend' } } as Load,
      events.backend_arrived,
      { state: 'waiting', attempts: 0, nextAt: now },
    ],
    [
      'whose files cannot be fetched is not tried again when a backend arrives',
      { ...states.failed, failure: { ...soft, source: 'files' } } as Load,
      events.backend_arrived,
      null,
    ],
    [
      'that found no node is looked at soon, and that is no attempt',
      states.waiting,
      { type: 'failed', failure: nowhere },
      { attempts: 0, nextAt: now + noCapacityRetryMs },
    ],
    ['whose process exits the first time is filled at once', states.ready, events.exited, { state: 'waiting', attempts: 1, nextAt: now }],
    [
      'whose process exits again soon has to wait',
      { ...states.ready, attempts: 1 },
      events.exited,
      { state: 'failed', attempts: 2, nextAt: now + 5_000 },
    ],
    [
      'whose process ran for long is no crash loop',
      { ...states.ready, attempts: 7, readyAt: now - steadyMs } as Load,
      events.exited,
      { state: 'waiting', attempts: 1, nextAt: now },
    ],
    [
      'whose process was told to end has not failed',
      { ...states.ready, attempts: 2 },
      { ...events.exited, wasCommanded: true },
      { state: 'waiting', attempts: 2 },
    ],
    [
      'whose node is away has not failed',
      { ...states.starting, attempts: 2 },
      events.node_away,
      { state: 'waiting', attempts: 2, nextAt: now },
    ],
    [
      'that stages files for its node waits for that node',
      { ...states.starting, purpose: 'stage', pin: nodeId },
      events.node_away,
      { state: 'waiting', pin: nodeId },
    ],
    ['of a replica may go to another node', { ...states.starting, pin: nodeId }, events.node_away, { state: 'waiting', pin: null }],
    [
      'whose slot is taken on its node has not failed, and is looked at soon',
      { ...states.starting, attempts: 2 },
      events.slot_taken,
      { state: 'waiting', attempts: 2, nextAt: now + 500, lease: null },
    ],
    [
      'goes on with a load that was out of reach',
      states.waiting,
      { ...events.returned, isReady: false },
      { state: 'starting', replicaId, opId },
    ],
    ['records that a replica ended for it', states.waiting, events.room_requested, { isRoomMade: true, note: 'the old one goes first' }],
    [
      'keeps that record while it waits for room',
      { ...states.waiting, isRoomMade: true, note: 'the old one goes first' },
      { type: 'room_requested', made: null, againInMs: 500 },
      { isRoomMade: true, note: 'the old one goes first' },
    ],
    [
      'records nothing while no replica ended for it',
      states.waiting,
      { ...events.room_requested, made: null },
      { isRoomMade: false, note: '' },
    ],
    [
      'begins anew with a new revision',
      { ...states.failed, attempts: 4, isRoomMade: true, note: 'the old one goes first' },
      events.revision_changed,
      { revision: 'rev-2', attempts: 0, nextAt: now, isRoomMade: false, note: '' },
    ],
    [
      'that was asked for by hand begins anew',
      { ...states.failed, attempts: 4, nextAt: null } as Load,
      { type: 'hurried', isFresh: true },
      { state: 'waiting', attempts: 0, nextAt: now },
    ],
    ['that may be anywhere is not told so again', { ...states.failed, pin: null }, events.unpinned, null],
    ['is free to go elsewhere when its process exits', states.ready, events.exited, { state: 'waiting', pin: null }],
    [
      'is free to go elsewhere when its process exits again',
      { ...states.ready, attempts: 1 },
      events.exited,
      { state: 'failed', pin: null },
    ],
    ['stays where it has to be when it fails there', states.starting, events.failed, { state: 'failed', pin: nodeId }],
    ['that is permanent is not hurried by anything else', { ...states.failed, nextAt: null } as Load, events.hurried, null],
  ])('%s', (_, load, event, want) => {
    const after = stepLoad(load, event, facts)
    if (want === null) expect(after).toBeNull()
    else expect(after).toMatchObject(want)
  })
})

describe('the pause after the last end of a process that ended several times in a row', () => {
  const killed: LoadEvent = { ...events.exited, isProven: true }
  /** Virtual time: it starts in 2 s, and ends 5 s after it became ready (or before that: `never`). Returns the last pause in ms. */
  const pauseAfter = (ends: number, event: LoadEvent, ready: 'soon' | 'never' = 'soon'): number => {
    let load = { ...states.ready, readyAt: 0 } as Load
    let at = 3_600_000
    let pause = 0
    for (let end = 0; end < ends; end += 1) {
      const ended = stepLoad(load, event, { now: at, chance: 0.5 })
      if (ended === null || ended === 'gone' || ended.state === 'ready' || ended.nextAt === null) throw new Error('it is tried again')
      pause = ended.nextAt - at
      const placed = stepLoad(ended, events.placed, { now: at + pause, chance: 0.5 })
      at += pause + 2_000
      const up = ready === 'never' ? placed : placed && placed !== 'gone' && stepLoad(placed, events.ready, { now: at, chance: 0.5 })
      if (!up || up === 'gone') throw new Error('it is started again')
      load = up
      at += ready === 'never' ? 0 : 5_000
    }
    return pause
  }

  it.each<[string, Parameters<typeof pauseAfter>, number]>([
    ['none after an hour in which it served', [1, killed, 'soon'], 0],
    ['short while its revision is proven', [2, killed, 'soon'], 1_000],
    ['never above 10 s while its revision is proven', [7, killed, 'soon'], 10_000],
    ['never above 10 s, also when it ends while it starts', [7, killed, 'never'], 10_000],
    ['long when that never ends', [25, killed, 'soon'], 300_000],
    ['long when no replica of its revision ever ran steadily', [7, events.exited, 'soon'], 160_000],
    ['long when it never comes up', [7, events.exited, 'never'], 300_000],
  ])('is %s', (_, given, want) => {
    expect(pauseAfter(...given)).toBe(want)
  })
})

describe('whatever happens to a load', () => {
  const history = fc.array(
    fc.constantFrom(...Object.values<LoadEvent>(events), { type: 'failed', failure: hard }, { type: 'failed', failure: nowhere }),
    {
      maxLength: 60,
    },
  )
  const run = (happened: readonly LoadEvent[]): Load[] => {
    const seen: Load[] = [{ ...states.waiting, lease: null }]
    for (const [index, event] of happened.entries()) {
      const at = now + index * 1_000
      const last = seen.at(-1)
      if (last === undefined) break
      const after = stepLoad(last, event, { now: at, chance: 0.5 })
      if (after === 'gone') break
      if (after !== null) seen.push(after)
    }
    return seen
  }

  it('it has a reason when it failed, and a next time unless the failure is permanent', () => {
    fc.assert(
      fc.property(history, (happened) => {
        for (const load of run(happened)) {
          if (load.state === 'failed') expect(load.failure.message).not.toBe('')
          else if (load.state !== 'ready') expect(load.nextAt).not.toBeNull()
          if (load.state === 'failed' && load.nextAt === null) expect(load.failure.retry).toBe('never')
        }
      }),
    )
  })

  it('I6 the number of a try never goes back, and I8 no pause is longer than the longest', () => {
    fc.assert(
      fc.property(history, (happened) => {
        const all = run(happened)
        for (const [index, load] of all.entries()) {
          expect(load.epoch).toBeGreaterThanOrEqual(all[index - 1]?.epoch ?? 0)
          if (load.state === 'failed' && load.nextAt !== null)
            expect(load.nextAt - load.failedAt).toBeLessThanOrEqual(loadRetry.maxMs * 1.1)
        }
      }),
    )
  })

  it('a ready load is not due, and neither is a leased one', () => {
    fc.assert(
      fc.property(history, (happened) => {
        for (const load of run(happened)) {
          if (load.state === 'ready') expect(isLoadDue(load, Infinity)).toBe(false)
          if (load.lease !== null) expect(isLoadDue(load, load.lease.until)).toBe(false)
        }
      }),
    )
  })
})
