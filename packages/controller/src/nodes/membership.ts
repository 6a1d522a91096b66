// Registration of nodes, and the session that each polls. A node is its key: the join token makes it pending, and only an
// administrator approves it.
import { newId, sha256Hex, type Log } from '@muster/host'
import { NodeId, type PublicKey, type Registration, type Session, type WorkerSettings } from '@muster/protocol'
import type { ChangeFeed } from '../events/feed.ts'
import type { AccessStore } from '../store/access.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { galleriesKey } from '../worker-settings.ts'
import type { BusCredentials } from './bus-credentials.ts'
import { statusOf } from './view.ts'

/** More pending nodes than this are a mistake or an attack. */
const maxPending = 10_000
const longestPollMs = 30_000

export type RegistrationResult =
  | { outcome: 'joined' | 'returned'; node: NodeRecord }
  | { outcome: 'outdated'; newest: string }
  | { outcome: 'bus_is_local' | 'wrong_token' | 'too_many_pending' | 'deleted_meanwhile' }

export type SessionOutcome = { outcome: 'ok'; session: Session } | { outcome: 'unknown' | 'superseded' }

export interface MembershipDeps {
  readonly nodes: NodeStore
  readonly access: AccessStore
  readonly feed: ChangeFeed
  readonly log: Log
  readonly autoApprove: boolean
  /** Keys of workers in this process: approved without an administrator. */
  readonly isOwnWorker: (key: PublicKey) => boolean
  readonly bus: { readonly kind: 'local' | 'nats'; readonly url: string; readonly ca: string | null; readonly credentials: BusCredentials }
  readonly workerSettings: () => Promise<WorkerSettings>
}
export type Membership = ReturnType<typeof createMembership>

export function createMembership(deps: MembershipDeps) {
  const { nodes, access, feed, log } = deps

  async function insert(registration: Registration, signedAt: Date): Promise<NodeId | null> {
    const approvedBy = deps.isOwnWorker(registration.public_key) ? 'this process' : deps.autoApprove ? '--auto-approve' : null
    const id = await nodes.insert(NodeId.parse(newId('n')), registration, { approvedBy, signedAt })
    if (id !== null) log.info('node joined', { node: id, name: registration.name, approved: approvedBy !== null })
    return id
  }

  async function register(registration: Registration, signedAt: Date): Promise<RegistrationResult> {
    if (deps.bus.kind === 'local' && !deps.isOwnWorker(registration.public_key)) return { outcome: 'bus_is_local' }
    // Twice: when one new key registers two times at once, the second attempt finds the row of the first.
    for (let round = 0; round < 2; round += 1) {
      const known = await nodes.refresh(registration, signedAt)
      if (known.outcome === 'outdated') return known
      if (known.outcome === 'refreshed') return await found(known.id, 'returned')
      if (!deps.isOwnWorker(registration.public_key)) {
        const isInvited = registration.token !== undefined && (await access.hasJoinToken(sha256Hex(registration.token)))
        if (!isInvited) return { outcome: 'wrong_token' }
        if ((await nodes.countPending()) >= maxPending) return { outcome: 'too_many_pending' }
      }
      const added = await insert(registration, signedAt)
      if (added !== null) return await found(added, 'joined')
    }
    return { outcome: 'deleted_meanwhile' }
  }

  async function found(id: NodeId, outcome: 'joined' | 'returned'): Promise<RegistrationResult> {
    const node = await nodes.find(id)
    return node === null ? { outcome: 'deleted_meanwhile' } : { outcome, node }
  }

  return {
    register,

    /** Answers when the session has changed, after 30 s at the latest. */
    async session(
      id: NodeId,
      key: PublicKey,
      poll: { incarnation?: string | undefined; known?: string | undefined; signal: AbortSignal },
    ): Promise<SessionOutcome> {
      const deadline = AbortSignal.any([poll.signal, AbortSignal.timeout(longestPollMs)])
      for (;;) {
        using watch = feed.watch([{ kind: 'node', id }, galleriesKey])
        const node = await nodes.find(id)
        if (node === null || node.publicKey !== key) return { outcome: 'unknown' }
        if (poll.incarnation !== undefined && poll.incarnation !== node.incarnation) return { outcome: 'superseded' }
        const session = await sessionOf(deps, node)
        const isNews = poll.known === undefined ? session.bus !== null : session.etag !== poll.known
        // Nothing changed meanwhile: the session that was read at the beginning is current.
        if (isNews || !(await watch.changed(longestPollMs, deadline))) return { outcome: 'ok', session }
      }
    },
  }
}

async function sessionOf({ bus, workerSettings }: MembershipDeps, node: NodeRecord): Promise<Session> {
  const { url, ca, credentials } = bus
  const isApproved = node.approvedAt !== null
  const { status } = statusOf(node)
  const settings = await workerSettings()
  if (!isApproved) return { status, bus: null, settings, etag: etagOf([isApproved, url, settings]) }
  const secret = node.gatewaySecret.reveal()
  const etag = etagOf([isApproved, url, ca, credentials.roundOf(node.id), settings, secret])
  const trust = ca === null ? {} : { ca }
  return { status, bus: { url, ...trust, ...(await credentials.for(node)) }, gateway_secret: secret, settings, etag }
}

/** Version of everything that a worker must react to. The node's status is not included, because the worker causes it. */
const etagOf = (parts: readonly unknown[]): string => sha256Hex(JSON.stringify(parts)).slice(0, 32)
