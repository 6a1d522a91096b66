// The membership of a worker in its cluster, and how responses of controllers change it. Pure. The transitions:
//   registering → registered   the controller knows the key (and gave or confirmed the node id)
//   registered → pending       the first session reports: not approved
//   … → joined                 a session carries a bus: an administrator approved the node
//   joined → pending           a session carries no bus any more
//   … → registering            the node was deleted, and the worker has a token to join again
//   … → ended                  final: stopped, deleted, superseded, or refused
// A temporary failure (unreachable, overloaded, a proxy's response) never ends a worker and never closes its bus: the state
// stays, the failure is counted, and the request is repeated.
import { unreachable, type NodeId, type Session } from '@muster/protocol'

/** `attempt` counts failures in a row; `retryAfterMs` is the pause that the controller requested. */
type Attempts = Readonly<{ attempt: number; retryAfterMs: number | null }>

export type Membership =
  /** `nodeId` is the ID that the controllers gave this key before; null on a first join. */
  | (Attempts & { readonly state: 'registering'; readonly nodeId: NodeId | null })
  | (Attempts & { readonly state: 'registered'; readonly nodeId: NodeId; readonly isApproved: boolean })
  | (Attempts & { readonly state: 'pending'; readonly nodeId: NodeId; readonly session: Session })
  | (Attempts & { readonly state: 'joined'; readonly nodeId: NodeId; readonly session: Session & { bus: NonNullable<Session['bus']> } })
  | EndedMembership

export type EndedMembership = Readonly<{
  state: 'ended'
  reason: 'stopped' | 'deleted' | 'superseded' | 'refused'
  code: number
  message: string
}>

export type Refusal = Readonly<{ type: 'refused'; status: number; code: string; message: string; retryAfterMs: number | null }>

export type MembershipEvent =
  | { readonly type: 'registered'; readonly nodeId: NodeId; readonly isApproved: boolean }
  | { readonly type: 'session'; readonly session: Session }
  | Refusal
  | { readonly type: 'unreachable'; readonly reason: string; readonly retryAfterMs: number | null }
  | { readonly type: 'stop'; readonly message: string }

export type JoinFacts = Readonly<{ hasToken: boolean; controllerUrl: string }>

export const initialMembership = (nodeId: NodeId | null): Membership => ({ state: 'registering', nodeId, ...fresh })

const fresh: Attempts = { attempt: 0, retryAfterMs: null }

/** Null: the event is not legal in this state. */
export function step(now: Membership, event: MembershipEvent, facts: JoinFacts): Membership | null {
  if (now.state === 'ended') return null
  switch (event.type) {
    case 'registered':
      return now.state === 'registering' ? { state: 'registered', nodeId: event.nodeId, isApproved: event.isApproved, ...fresh } : null
    case 'session':
      return now.state === 'registering' ? null : withSession(now.nodeId, event.session)
    case 'unreachable':
      return countFailure(now, event.retryAfterMs)
    case 'refused':
      return now.state === 'registering' ? refusedRegistration(now, event, facts) : refusedSession(now, event, facts)
    case 'stop':
      return { state: 'ended', reason: 'stopped', code: 0, message: event.message }
    default:
      return unreachable(event)
  }
}

function withSession(nodeId: NodeId, session: Session): Membership {
  const { bus } = session
  return bus === null
    ? { state: 'pending', nodeId, session, ...fresh }
    : { state: 'joined', nodeId, session: { ...session, bus }, ...fresh }
}

function countFailure<T extends Attempts>(now: T, retryAfterMs: number | null): T {
  return { ...now, attempt: now.attempt + 1, retryAfterMs }
}

function refusedRegistration(now: Extract<Membership, { state: 'registering' }>, refusal: Refusal, facts: JoinFacts): Membership {
  const final = endedByConflict(refusal)
  if (final !== null) return final
  if (isTemporary(refusal)) return countFailure(now, refusal.retryAfterMs)
  if (refusal.status === 401 && !isAboutSignature(refusal)) {
    const who = now.nodeId === null ? 'this worker' : `this worker any more (it was node ${now.nodeId})`
    const token = facts.hasToken ? `the join token is not accepted (${refusal.code})` : 'joining needs the join token'
    return refused(`${facts.controllerUrl} does not know ${who}, and ${token}. ${joinHint(facts)}`)
  }
  // The first response distinguishes a controller from a mistyped URL. Later an unexpected response comes from something in
  // between, and is no reason for a whole fleet to stop.
  return now.nodeId === null
    ? refused(`${facts.controllerUrl} refused this worker: ${refusal.message} (${refusal.status} ${refusal.code})`)
    : countFailure(now, refusal.retryAfterMs)
}

function refusedSession(
  now: Exclude<Membership, EndedMembership | { state: 'registering' }>,
  refusal: Refusal,
  facts: JoinFacts,
): Membership {
  // Not any 404: a gateway in front of the controllers has its own.
  if (refusal.code === 'unknown_node') {
    if (facts.hasToken) return initialMembership(null)
    const message = `node ${now.nodeId} was removed from the cluster by an administrator. ${joinHint(facts)}`
    return { state: 'ended', reason: 'deleted', code: 1, message }
  }
  return endedByConflict(refusal) ?? countFailure(now, refusal.retryAfterMs)
}

function endedByConflict(refusal: Refusal): EndedMembership | null {
  if (refusal.status !== 409) return null
  if (refusal.code === 'bus_is_local') return refused(refusal.message)
  if (refusal.code !== 'superseded') return null
  return { state: 'ended', reason: 'superseded', code: 1, message: `another process took over as this node: ${refusal.message}` }
}

/** An outdated registration is signed again with each attempt. */
const isTemporary = ({ status, code }: Refusal): boolean =>
  status >= 500 || status === 408 || status === 425 || status === 429 || code === 'registration_outdated'
const isAboutSignature = ({ code }: Refusal): boolean => code === 'bad_signature' || code === 'clock_skew'
const refused = (message: string): EndedMembership => ({ state: 'ended', reason: 'refused', code: 1, message })
const joinHint = ({ controllerUrl }: JoinFacts): string =>
  `To join run \`muster worker --join ${controllerUrl} --token TOKEN\` with the join token`
