// /api/node: what workers say for themselves. Signed; no key.
import { nodeAgentRoutes as routes, type RegistrationReply } from '@muster/protocol'
import type { FailureLimit } from '../auth/failure-limit.ts'
import type { Membership } from '../nodes/membership.ts'
import type { PulseLoop } from '../nodes/pulse-loop.ts'
import { statusOf } from '../nodes/view.ts'
import type { NodeStore } from '../store/nodes.ts'
import { Answer, endpoint, type Call, type Endpoint, type Signer } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { busIsLocal } from './join-tokens.ts'

export interface NodeAgentDeps {
  readonly membership: Membership
  readonly nodes: NodeStore
  readonly pulse: PulseLoop
  readonly joinFailures: FailureLimit
}

/** Why a machine is not let in, and what its operator can do about it. */
const refusals = {
  wrong_token: () =>
    new HttpError(
      401,
      'wrong_token',
      'this key is not known here, and joining needs the join token: run "muster worker --join URL --token T" (the token is in <data-dir>/join.token of the controller that made it)',
    ),
  too_many_pending: () =>
    new HttpError(429, 'too_many_pending', 'too many nodes wait for approval; approve or remove some first', {
      headers: { 'retry-after': '60' },
    }),
  bus_is_local: busIsLocal,
  deleted_meanwhile: () =>
    new HttpError(503, 'deleted_meanwhile', 'this node was deleted while it registered; register again', {
      headers: { 'retry-after': '1' },
    }),
  superseded: () =>
    new HttpError(
      409,
      'superseded',
      'another worker process with this key registered after this one and now speaks for the node; stop one of the two (a copied data directory needs a key of its own: remove node.key in the copy)',
    ),
  // A code of its own: a worker ends on it, and any gateway in between may say 404 for reasons of its own.
  unknown: () => new HttpError(404, 'unknown_node', 'this key belongs to no node here: register again (a new node needs the join token)'),
}

/** The worker signs again, later than `newest`; also one whose clock is behind that of the process before it. */
const outdated = (newest: string): HttpError =>
  new HttpError(
    409,
    'registration_outdated',
    `a registration of another process of this node was signed at ${newest}, and this one not after it: sign a new one with a later time`,
    { details: { newest } },
  )

const signerOf = (call: Pick<Call<unknown>, 'signer'>): Signer => {
  if (call.signer === null) throw new Error('a node route is served without a verified key')
  return call.signer
}

export function nodeAgentEndpoints(deps: NodeAgentDeps): Endpoint[] {
  const { membership, nodes, pulse } = deps
  return [
    endpoint(routes.register, async (call) => await register(deps, call)),
    endpoint(routes.session, async (call) => {
      const result = await membership.session(call.params.id, signerOf(call).key, { ...call.body, signal: call.signal })
      if (result.outcome !== 'ok') throw refusals[result.outcome]()
      return result.session
    }),
    endpoint(routes.heartbeat, async (call) => {
      const node = await nodes.find(call.params.id)
      if (node === null || node.publicKey !== signerOf(call).key) throw refusals.unknown()
      const { incarnation, in_flight, seq = null, resources = null } = call.body
      pulse.noteHttpBeat({ node_id: node.id, incarnation, in_flight, seq, resources })
      return { status: statusOf(node).status }
    }),
  ]
}

async function register(
  { membership, nodes, joinFailures }: NodeAgentDeps,
  call: Call<typeof routes.register>,
): Promise<Answer<RegistrationReply>> {
  const { key, signedAt } = signerOf(call)
  if (call.body.public_key !== key) {
    throw new HttpError(401, 'bad_signature', 'the public_key to register is not the key that signed the request')
  }
  // Whoever is known needs no token, and does not suffer from somebody guessing behind the same address.
  const wait = joinFailures.waitSeconds(call.remoteAddress)
  if (wait > 0 && (await nodes.findByKey(call.body.public_key)) === null) {
    const headers = { 'retry-after': String(wait) }
    throw new HttpError(429, 'too_many_failures', `too many wrong join tokens from this address; try again in ${wait} s`, { headers })
  }
  const result = await membership.register(call.body, signedAt)
  if (result.outcome === 'wrong_token') joinFailures.note(call.remoteAddress)
  if (result.outcome === 'outdated') throw outdated(result.newest)
  if (!('node' in result)) throw refusals[result.outcome]()
  const { id, name } = result.node
  return new Answer(result.outcome === 'joined' ? 201 : 200, { id, name, status: statusOf(result.node).status })
}
