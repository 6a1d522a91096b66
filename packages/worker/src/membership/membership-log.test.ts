import { NodeId, type Session } from '@muster/protocol'
import { expect, it } from 'vitest'
import { recordingLog } from '../../test/recording-log.ts'
import { initialMembership, type Membership } from './membership.pure.ts'
import { logMembership } from './run-membership.ts'

const nodeId = NodeId.parse('n-1')
const asking = { attempt: 0, retryAfterMs: null }
const session: Session = {
  status: 'pending',
  bus: null,
  settings: { heartbeat_interval_ms: 1, controllers: [], allow_source: [], galleries: [] },
  etag: '',
}
const registered = (isApproved: boolean): Membership => ({ state: 'registered', nodeId, isApproved, ...asking })
const pending: Membership = { state: 'pending', nodeId, session, ...asking }
const joined: Membership = {
  state: 'joined',
  nodeId,
  session: { ...session, bus: { url: 'nats://user:secret@more@h:4222,tls://token@i', credentials: null, expires_at: null } },
  ...asking,
}

it.each<[string, Membership[], number]>([
  ['once while it waits', [initialMembership(null), registered(false), pending, { ...pending, attempt: 3 }, pending], 1],
  ['not when it comes back approved', [initialMembership(nodeId), registered(true), joined], 0],
  ['when its approval was taken back', [initialMembership(nodeId), registered(true), joined, pending], 1],
])('asks for approval %s', (_, life, want) => {
  const log = recordingLog()
  life.forEach((now, index) => logMembership(log, now, life[index - 1] ?? null))
  const said = log.lines.filter(({ fields }) => fields['run'] === 'muster nodes approve n-1')
  expect(said).toHaveLength(want)
})

it('leaves the end to the caller, which gets the message', () => {
  const log = recordingLog()
  for (const code of [0, 1]) logMembership(log, { state: 'ended', reason: 'refused', code, message: 'because' }, pending)
  expect(log.lines).toEqual([])
})

it('shows no password of the bus', () => {
  const log = recordingLog()
  logMembership(log, joined, pending)
  expect(JSON.stringify(log.lines)).toContain('nats://h:4222,tls://i')
  expect(JSON.stringify(log.lines)).not.toMatch(/secret|more|token/)
})
