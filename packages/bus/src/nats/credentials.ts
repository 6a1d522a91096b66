// Credentials for a NATS server that trusts one account, made with the seed of that account. A node's token is bound to
// the key that only the node holds, so no seed is ever sent.
import { messageCatalogue, type NodeId, nodeTopics, type PublicKey } from '@muster/protocol'
import { createAccount, createOperator, createUser, encodeAccount, encodeOperator, encodeUser, fromSeed, type KeyPair } from '@nats-io/jwt'
import type { NatsCredentials } from './connect-nats.ts'

/** Short: a token cannot be revoked on a server that keeps accounts in its configuration. */
const nodeTokenMs = 3_600_000
const controllerTokenMs = 24 * 3_600_000
/** Longer than any command that is answered at its end. */
const answerWithinMs = 20 * 60_000

export interface CredentialIssuer {
  /** For the holder of that key, valid until `expiresAt` (milliseconds since the epoch). */
  forNode(node: { id: NodeId; publicKey: PublicKey }): Promise<{ token: string; expiresAt: number }>
  forController(inboxPrefix: string): Promise<NatsCredentials>
}

/** The prefix below which a node receives answers; its token permits no other. */
export const nodeInboxPrefix = (node: NodeId): string => `_INBOX_${node}`

export function createCredentialIssuer(options: { accountSeed: string; now: () => number }): CredentialIssuer {
  const account = accountFrom(options.accountSeed)
  const sign = async (user: KeyPair | string, name: string, grant: { permissions: Permissions; expiresAt: number }): Promise<string> =>
    await encodeUser(name, user, account, claimsOf(grant.permissions), { exp: Math.floor(grant.expiresAt / 1_000) })

  return {
    async forNode({ id, publicKey }) {
      const expiresAt = options.now() + nodeTokenMs
      return { token: await sign(publicKey, id, { permissions: nodePermissions(id, nodeInboxPrefix(id)), expiresAt }), expiresAt }
    },
    async forController(inboxPrefix) {
      const user = createUser()
      const jwt = await sign(user, 'muster controller', {
        permissions: controllerPermissions(inboxPrefix),
        expiresAt: options.now() + controllerTokenMs,
      })
      return { jwt, seed: new TextDecoder().decode(user.getSeed()) }
    },
  }
}

function accountFrom(seed: string): KeyPair {
  const account = fromSeed(new TextEncoder().encode(seed.trim()))
  if (!account.getPublicKey().startsWith('A')) throw new Error('this is not the seed of a NATS account (it begins with SA)')
  return account
}

function claimsOf({ publish, subscribe }: Permissions) {
  return { pub: { allow: [...publish] }, sub: { allow: [...subscribe] }, resp: { max: 1, ttl: answerWithinMs * 1e6 } }
}

/** A server configuration that requires tokens of a new account, and the seed of that account. */
export async function createNatsConfig(): Promise<{ config: string; accountSeed: string }> {
  const [operator, account] = [createOperator(), createAccount()]
  const accountToken = await encodeAccount(
    'muster',
    account,
    { limits: { subs: -1, data: -1, payload: -1, imports: 0, exports: 0, wildcards: true, conn: -1, leaf: 0 } },
    { signer: operator },
  )
  const config = `# A nats-server (2.9 or newer) for Muster: clients need a token that a controller made.
# Keep it on a private network, or add a tls { … } block.
listen: 0.0.0.0:4222
max_payload: 1MB
operator: ${await encodeOperator('muster', operator)}
resolver: MEMORY
resolver_preload: {
  ${account.getPublicKey()}: ${accountToken}
}
`
  return { config, accountSeed: new TextDecoder().decode(account.getSeed()) }
}

// Permissions on NATS, made from the message catalogue. Answers need no permission of their own: a node may answer each
// request (`allow_responses`), and every client receives answers only below its own inbox. No client receives all
// messages, so none can read or forge the requests and answers of another.
export interface Permissions {
  readonly publish: readonly string[]
  readonly subscribe: readonly string[]
}

const isPublishedByNodes = (subject: string): boolean => nodeTopics.some((topic) => topic.subject === subject)
const subjects = Object.values(messageCatalogue).map((conversation) => conversation.subject)
const [fromNodes, toNodes] = [subjects.filter(isPublishedByNodes), subjects.filter((subject) => !isPublishedByNodes(subject))]

/** `nodes.{node}.…` for one node, or any; every other parameter is any. */
const forNode = (subject: string, node: NodeId | '*'): string => subject.replace('{node}', node).replaceAll(/\{\w+\}/g, '*')

function controllerPermissions(inboxPrefix: string): Permissions {
  return {
    publish: toNodes.map((subject) => forNode(subject, '*')),
    subscribe: [...fromNodes.map((subject) => forNode(subject, '*')), `${inboxPrefix}.>`],
  }
}

function nodePermissions(node: NodeId, inboxPrefix: string): Permissions {
  return {
    publish: fromNodes.map((subject) => forNode(subject, node)),
    subscribe: [...toNodes.map((subject) => forNode(subject, node)), `${inboxPrefix}.>`],
  }
}
