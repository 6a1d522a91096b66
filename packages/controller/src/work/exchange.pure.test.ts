import { NodeId, OperationId, type CommandReply, type Failure, type OpStatusReply } from '@muster/protocol'
import { describe, expect, it } from 'vitest'
import { endOf, hasMoved, kindOfWork, outcomeOf, stallFailure, tickOf, type CommandOutcome } from './exchange.pure.ts'

const failure: Failure = { code: 'disk_full', retry: 'backoff', message: 'no room' }
const op_id = OperationId.parse('op-1')
const reply = (state: OpStatusReply['state'], over: Partial<OpStatusReply> = {}): OpStatusReply => ({ op_id, state, ...over })

it.each([
  ['op-1', 'intent'],
  ['ld-1', 'load'],
  ['ld', 'intent'],
  ['old-1', 'intent'],
])('operation %s is work of kind %s', (id, kind) => {
  expect(kindOfWork(OperationId.parse(id))).toBe(kind)
})

describe('the outcome of a command', () => {
  it.each<[string, CommandReply, CommandOutcome]>([
    ['accepted', { accepted: true }, { is: 'accepted' }],
    ['refused', { accepted: false, failure }, { is: 'refused', failure }],
    ['done', { success: true }, { is: 'done' }],
    [
      'failed with a message',
      { success: false, error: 'no space' },
      { is: 'refused', failure: { code: 'internal', retry: 'backoff', message: 'delete failed: no space' } },
    ],
    [
      'failed without a message',
      { success: false },
      { is: 'refused', failure: { code: 'internal', retry: 'backoff', message: 'delete failed: the worker gave no reason' } },
    ],
  ])('is %s', (_, given, want) => {
    expect(outcomeOf('delete', given)).toEqual(want)
  })
})

describe('the end of work', () => {
  it.each([
    ['succeeded', reply('succeeded', { epoch: 2 }), { is: 'succeeded' }],
    ['failed', reply('failed', { epoch: 2, failure }), { is: 'failed', epoch: 2, failure }],
    ['failed in an unnamed try', reply('failed', { failure }), { is: 'failed', epoch: null, failure }],
    ['cancelled', reply('cancelled', { epoch: 3, failure }), { is: 'cancelled', epoch: 3, failure }],
    ['missing while it is unknown', reply('unknown'), null],
    ['missing while it is queued on the worker', reply('accepted'), null],
    ['missing while it runs', reply('running'), null],
  ])('is %s', (_, given, want) => {
    expect(endOf(given)).toEqual(want)
  })

  it.each(['failed', 'cancelled'] as const)('has a failure that is retried when the worker gives no reason for %s', (state) => {
    expect(endOf(reply(state))).toMatchObject({ failure: { code: 'internal', retry: 'backoff' } })
  })
})

describe('a sign of life', () => {
  const seen = { phase: 'downloading' as const, current: 50, seq: 3 }
  it.each<[string, OpStatusReply, typeof seen | (Omit<typeof seen, 'seq'> & { seq: null }), boolean]>([
    ['a higher number', reply('running', { phase: 'downloading', current: 50, progress_seq: 4 }), seen, true],
    ['the same number, whatever the bytes', reply('running', { phase: 'extracting', current: 60, progress_seq: 3 }), seen, false],
    ['the first number', reply('running', { phase: 'downloading', current: 50, progress_seq: 0 }), { ...seen, seq: null }, true],
    ['more bytes of a worker without numbers', reply('running', { phase: 'downloading', current: 51 }), seen, true],
    ['another phase of a worker without numbers', reply('running', { phase: 'extracting', current: 50 }), seen, true],
    ['the same bytes of a worker without numbers', reply('running', { phase: 'downloading', current: 50 }), seen, false],
    ['A19 waiting in the queue of the worker', reply('accepted'), seen, true],
  ])('%s', (...[, given, before, want]) => {
    expect(hasMoved(given, before)).toBe(want)
  })
})

it('A19 a stall names its time, phase and bytes', () => {
  const { message } = stallFailure(120_000, reply('running', { phase: 'downloading', current: 50, total: 100 }))
  expect(message).toBe('no sign of life for 120 s while downloading (50 of 100 bytes); it was cancelled on the worker and is tried again')
  expect(stallFailure(60_000, reply('unknown')).message).toContain('no sign of life for 60 s, and the worker does not know it')
})

it('a reply to a query counts as a progress message', () => {
  const work = { nodeId: NodeId.parse('n-1'), opId: op_id, epoch: 3 }
  const tick = tickOf(work, { fileName: 'a.bin' }, reply('running', { phase: 'downloading', current: 1, total: 3, progress_seq: 7 }))
  expect(tick).toEqual({ ...work, phase: 'downloading', fileName: 'a.bin', current: 1, total: 3, percentage: 33.3, seq: 7 })
})
