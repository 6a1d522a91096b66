// /api/node: registration, sessions, heartbeats and downloads of workers, signed with the node's key; /api/join-tokens.
import { Readable } from 'node:stream'
import { newSecret, sha256Hex } from '@muster/host'
import { joinTokenRoutes, nodeAgentRoutes as routes, type RegistrationReply } from '@muster/protocol'
import type { FailureLimit } from '../auth/failure-limit.ts'
import type { BuiltinBlobs } from '../builtin/builtin-blobs.ts'
import type { Membership } from '../nodes/membership.ts'
import type { PulseLoop } from '../nodes/pulse-loop.ts'
import { statusOf } from '../nodes/view.ts'
import type { AccessStore } from '../store/access.ts'
import type { NodeStore } from '../store/nodes.ts'
import { Answer, type Call, endpoint, type Endpoint, type Signer } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

export interface NodeAgentDeps {
  readonly membership: Membership
  readonly nodes: NodeStore
  readonly pulse: PulseLoop
  readonly joinFailures: FailureLimit
  /** Aborted when the controller accepts no more connections: polls are answered, so that workers poll another one. */
  readonly closing: AbortSignal
}

/** Each refusal names the remedy. */
const refusals = {
  wrong_token: () =>
    new HttpError(
      401,
      'wrong_token',
      'unknown key, and joining needs the join token: run "muster worker --join URL --token T" (the token is in <data-dir>/join.token of the controller that made it)',
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
  // Has its own code: a worker exits on it, and a proxy in between may answer 404 for other reasons.
  unknown: () => new HttpError(404, 'unknown_node', 'this key belongs to no node here: register again (a new node needs the join token)'),
}

/** A controller with an in-process bus accepts no other machine: refused at joining, and before that at creating a token. */
function busIsLocal(): HttpError {
  return new HttpError(
    409,
    'bus_is_local',
    'this controller runs on one machine with its bus inside its own process, so no other machine can join; start nats-server and run it with "muster up --nats-url nats://HOST:4222 --host 0.0.0.0" (or "muster controller --database-url U --nats-url U"), then join again',
  )
}

/** The worker signs again with a time after `newest`, even when its clock is behind that of the process before it. */
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
  const { membership, nodes, pulse, closing } = deps
  return [
    endpoint(routes.register, async (call) => await register(deps, call)),
    endpoint(routes.session, async (call) => {
      const signal = AbortSignal.any([call.signal, closing])
      const result = await membership.session(call.params.id, signerOf(call).key, { ...call.body, signal })
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
  // A registered node needs no token, so it does not wait for guesses from the same address.
  const wait = joinFailures.waitSeconds(call.remoteAddress)
  if (wait > 0 && (await nodes.findByKey(call.body.public_key)) === null) {
    const headers = { 'retry-after': String(wait) }
    throw new HttpError(429, 'too_many_failures', `too many wrong join tokens from this address; try again in ${wait} s`, { headers })
  }
  const result = await membership.register(call.body, signedAt)
  if (result.outcome === 'wrong_token') joinFailures.recordFailure(call.remoteAddress)
  if (result.outcome === 'outdated') throw outdated(result.newest)
  if (!('node' in result)) throw refusals[result.outcome]()
  const { id, name } = result.node
  return new Answer(result.outcome === 'joined' ? 201 : 200, { id, name, status: statusOf(result.node).status })
}

/** Blobs of built-in backends and models, for approved nodes. */
export function blobEndpoints({ nodes, builtin }: { nodes: NodeStore; builtin: Promise<BuiltinBlobs> }): Endpoint[] {
  return [
    endpoint(routes.blob, async ({ params, signer, headers, signal }) => {
      const node = await nodes.find(params.id)
      if (node === null || node.publicKey !== signer?.key) throw notFound('this key belongs to no node here: register again')
      if (node.approvedAt === null) throw new HttpError(403, 'not_approved', 'an administrator has not approved this node yet')
      const blobs = await builtin
      const size = await blobs.size(params.digest)
      if (size === null) throw notFound(`this controller does not have ${params.digest}; one of another version may`)
      const range = parseRange(headers.get('range'), size)
      if (range === 'unsatisfiable') {
        throw new HttpError(416, 'range_not_satisfiable', `${params.digest} has ${size} bytes`, {
          headers: { 'content-range': `bytes */${size}` },
        })
      }
      const { start, end } = range ?? { start: 0, end: size - 1 }
      const answer = {
        'content-type': 'application/octet-stream',
        'content-length': String(end - start + 1),
        'accept-ranges': 'bytes',
        etag: `"${params.digest}"`,
        // Immutable: the name is the digest.
        'cache-control': 'private, max-age=31536000, immutable',
        ...(range === null ? {} : { 'content-range': `bytes ${start}-${end}/${size}` }),
      }
      const status = range === null ? 200 : 206
      if (size === 0) return new Response(null, { status, headers: answer })
      const stream = blobs.open(params.digest, { start, end })
      signal.addEventListener('abort', () => stream.destroy(), { once: true })
      return new Response(Readable.toWeb(stream) as ReadableStream<Uint8Array>, { status, headers: answer })
    }),
  ]
}

/** Both ends are included. */
type Range = { readonly start: number; readonly end: number }

/** Null: send everything. Several ranges and other units are ignored, as RFC 9110 allows. */
export function parseRange(header: string | null, size: number): Range | 'unsatisfiable' | null {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? []
  if (first === '' && last === '') return null
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null
  return start > end ? 'unsatisfiable' : { start, end }
}

const joinTokenMs = 3_600_000

interface JoinTokenDeps {
  readonly access: AccessStore
  readonly busKind: 'local' | 'nats'
  /** Where workers reach this controller. */
  readonly url: string
}

export function joinTokenEndpoints({ access, busKind, url }: JoinTokenDeps): Endpoint[] {
  return [
    endpoint(joinTokenRoutes.create, async () => {
      if (busKind === 'local') throw busIsLocal()
      const token = newSecret('muster_join')
      return { token, expires_at: await access.insertJoinToken(sha256Hex(token), joinTokenMs), url }
    }),
  ]
}
