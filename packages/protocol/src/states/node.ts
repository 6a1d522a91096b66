// The status of a node. It is not stored but derived from facts, so it cannot become stale. Facts and the owners of their
// transitions:
//   approved    an administrator (approve); bound to the key, nothing else sets it
//   draining    an administrator (drain, resume); survives silence
//   liveness    heartbeats (→ present), the worker's goodbye (→ left), the approval (→ new), and the silence
//               sweep of a controller that received heartbeats without a break (→ silent → gone)
//   answering   the outcome of commands: no responders (→ no), any answer (→ yes). A node that is back
//               over HTTP only, or restarted after a command found no responders, has to prove it (→ unproven)
import { unreachable } from '../failure.ts'
import type { NodeStatus } from '../ids.ts'

export type Liveness = 'new' | 'present' | 'silent' | 'gone' | 'left'
export type Responsiveness = 'yes' | 'unproven' | 'no'

export type Pulse = Readonly<{ liveness: Liveness; answering: Responsiveness }>

export type PulseEvent =
  /** `isAgent`: an agent node serves no commands, so it owes no proof that it answers them. */
  | { type: 'heartbeat'; via: 'bus' | 'http'; isNewIncarnation: boolean; isAgent: boolean }
  | { type: 'answered' }
  | { type: 'no_responders' }
  | { type: 'leaving' }
  /** Heartbeats from before the approval must not make it healthy. */
  | { type: 'approved' }
  | { type: 'silent_for_timeout' }
  | { type: 'silent_for_offline' }

/** `store/pulses.ts` implements the same in SQL, for thousands of nodes at once; a test compares the two. */
export function step(pulse: Pulse, event: PulseEvent): Pulse {
  switch (event.type) {
    case 'heartbeat': {
      const isBack = event.via === 'http' && pulse.liveness !== 'present'
      const isRestarted = event.isNewIncarnation && pulse.answering === 'no'
      const owesProof = !event.isAgent && (isBack || isRestarted)
      return { liveness: 'present', answering: owesProof ? 'unproven' : pulse.answering }
    }
    case 'answered':
      // An answer from before its goodbye does not bring it back.
      return pulse.liveness === 'left' ? pulse : { liveness: 'present', answering: 'yes' }
    case 'no_responders':
      return { ...pulse, answering: 'no' }
    case 'leaving':
      return { ...pulse, liveness: 'left' }
    case 'approved':
      return { liveness: 'new', answering: 'yes' }
    case 'silent_for_timeout':
      return pulse.liveness === 'present' ? { ...pulse, liveness: 'silent' } : pulse
    case 'silent_for_offline':
      return pulse.liveness === 'left' ? pulse : { ...pulse, liveness: 'gone' }
    default:
      return unreachable(event)
  }
}

export type NodeFacts = Readonly<{ approved: boolean; draining: boolean; lastSeenAt: string | null }> & Pulse

/** Its first report, or its first answer after a return, is due within seconds; without one the silence sweep ends this state. */
export const isArriving = ({ approved, draining, liveness, answering }: NodeFacts): boolean =>
  approved && !draining && (liveness === 'new' || (liveness === 'present' && answering === 'unproven'))

export function nodeStatus(node: NodeFacts): { status: NodeStatus; reason: string } {
  const since = node.lastSeenAt === null ? 'no heartbeat yet' : `last heard ${node.lastSeenAt}`
  if (!node.approved) return { status: 'pending', reason: 'waiting for an administrator to approve it' }
  switch (node.liveness) {
    case 'left':
      return { status: 'offline', reason: `the worker was stopped; ${since}` }
    case 'gone':
      return { status: 'offline', reason: `silent for longer than the offline limit; ${since}` }
    case 'silent':
      return { status: 'unhealthy', reason: `no heartbeat for longer than the node timeout; ${since}` }
    case 'new':
      return { status: 'unhealthy', reason: 'approved, but has not reported over the bus yet' }
    case 'present':
      break
    default:
      return unreachable(node.liveness)
  }
  switch (node.answering) {
    case 'no':
      return { status: 'unhealthy', reason: 'not answering commands: nothing listens on its command subjects' }
    case 'unproven':
      return { status: 'unhealthy', reason: 'reporting, but has not answered a command yet' }
    case 'yes':
      break
    default:
      return unreachable(node.answering)
  }
  if (node.draining) return { status: 'draining', reason: 'drained by an administrator: gets no new work' }
  return { status: 'healthy', reason: 'receiving heartbeats' }
}
