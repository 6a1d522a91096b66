import { Digest, type Failure } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { Stage, step, type Exit, type ReplicaEvent, type Run } from './replica.pure.ts'

const run: Run = {
  process: { pid: 7, started: '1', boot: 'b' },
  address: { kind: 'tcp', host: '127.0.0.1', port: 4000 },
  digest: Digest.parse(`sha256:${'0'.repeat(64)}`),
  modelDirectory: '/models/m',
}
const exit: Exit = { code: 3, signal: null, lines: ['no such tensor'] }
const failure: Failure = { code: 'integrity', retry: 'never', message: 'the hash is wrong' }
const cancel: Failure = { code: 'cancelled', retry: 'never', message: 'cancelled on request' }

const stages = {
  accepted: { state: 'accepted' },
  staging: { state: 'staging' },
  starting: { state: 'starting', run },
  ready: { state: 'ready', run },
  draining: { state: 'draining', run },
  stopping: { state: 'stopping', run, end: null },
  failing: { state: 'stopping', run, end: { how: 'failed', failure } },
  gone: { state: 'gone', end: { how: 'staged' } },
} satisfies Record<string, Stage>
type Name = keyof typeof stages

const events = {
  stage: { type: 'stage' },
  staged: { type: 'staged' },
  spawned: { type: 'spawned', run },
  ready: { type: 'ready' },
  drain: { type: 'drain' },
  stop: { type: 'stop', because: cancel },
  fail: { type: 'stop', because: failure },
  exited: { type: 'exited', exit },
  again: { type: 'again' },
} satisfies Record<string, ReplicaEvent>

const cancelled = { how: 'cancelled', failure: cancel }
const failed = { how: 'failed', failure }
const crashed = { how: 'exited', exit, isExpected: false }
const ended = { how: 'exited', exit, isExpected: true }

/** All other transitions are illegal. */
const legal: Partial<Record<Name, Partial<Record<keyof typeof events, unknown>>>> = {
  accepted: { stage: { state: 'staging' }, stop: { state: 'gone', end: cancelled }, fail: { state: 'gone', end: failed } },
  staging: {
    staged: { state: 'gone', end: { how: 'staged' } },
    spawned: { state: 'starting', run },
    stop: { state: 'gone', end: cancelled },
    fail: { state: 'gone', end: failed },
    again: { state: 'accepted' },
  },
  starting: {
    ready: { state: 'ready', run },
    stop: { state: 'stopping', run, end: cancelled },
    fail: { state: 'stopping', run, end: failed },
    exited: {
      state: 'gone',
      end: {
        how: 'failed',
        failure: { code: 'unavailable', retry: 'backoff', message: expect.stringMatching(/exit code 3[^]*no such tensor/) },
      },
    },
    again: { state: 'accepted' },
  },
  ready: {
    drain: { state: 'draining', run },
    stop: { state: 'stopping', run, end: null },
    fail: { state: 'stopping', run, end: null },
    exited: { state: 'gone', end: crashed },
  },
  draining: {
    stop: { state: 'stopping', run, end: null },
    fail: { state: 'stopping', run, end: null },
    exited: { state: 'gone', end: ended },
  },
  stopping: { exited: { state: 'gone', end: ended } },
  failing: { exited: { state: 'gone', end: failed } },
  gone: {},
}

describe('a replica moves by legal events alone', () => {
  const table = Object.entries(stages).flatMap(([name, stage]) =>
    Object.entries(events).map(([event, happened]) => ({
      name,
      event,
      stage,
      happened,
      want: legal[name as Name]?.[event as keyof typeof events] ?? null,
    })),
  )
  it.each(table)('$name, $event', ({ stage, happened, want }) => {
    const next = step(stage, happened)
    expect(next).toEqual(want)
    if (next !== null) expect(Stage.parse(next)).toEqual(next)
  })
})
