// Credentials for a NATS server that trusts one account: made by whoever holds the account's seed.
// A node's token is made for the key that the node itself holds, so no seed ever travels.
import { messageCatalogue, type NodeId, nodeTopics, type PublicKey } from '@muster/protocol'
import { createAccount, createOperator, createUser, encodeAccount, encodeOperator, encodeUser, fromSeed, type KeyPair } from '@nats-io/jwt'
import type { NatsCredentials } from './connect-nats.ts'

/** Short: a token can't be called back from a server that keeps accounts in its configuration. */
const nodeTokenMs = 3_600_000
const controllerTokenMs = 24 * 3_600_000
/** As long as the longest command that is answered at its end may take, and some. */
const answerWithinMs = 20 * 60_000

export interface CredentialIssuer {
  /** For the holder of that key, and good until `expiresAt` (milliseconds since the epoch). */
  forNode(node: { id: NodeId; publicKey: PublicKey }): Promise<{ token: string; expiresAt: number }>
  forController(inboxPrefix: string): Promise<NatsCredentials>
}

/** The prefix below which a node hears answers; its token says so, and it must use no other. */
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

/** A server's configuration that lets in nobody without a token of this account, and the account's seed. */
export async function createNatsConfig(): Promise<{ config: string; accountSeed: string }> {
  const [operator, account] = [createOperator(), createAccount()]
  const accountToken = await encodeAccount(
    'muster',
    account,
    { limits: { subs: -1, data: -1, payload: -1, imports: 0, exports: 0, wildcards: true, conn: -1, leaf: 0 } },
    { signer: operator },
  )
  const config = `# A nats-server (2.9 or newer) for Muster: whoever connects needs a token that a controller made.
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

// Who may say and hear what on NATS, made from the catalogue of conversations. Pure.
// Answers need no grant of their own: a node may answer what it was asked (`allow_responses`), and each
// party hears answers only below its own inbox. Nobody hears everything, so nobody can read or forge
// what another was asked or answered.
export interface Permissions {
  readonly publish: readonly string[]
  readonly subscribe: readonly string[]
}

const isSpokenByNodes = (subject: string): boolean => nodeTopics.some((topic) => topic.subject === subject)
const subjects = Object.values(messageCatalogue).map((conversation) => conversation.subject)
const [fromNodes, toNodes] = [subjects.filter(isSpokenByNodes), subjects.filter((subject) => !isSpokenByNodes(subject))]

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
