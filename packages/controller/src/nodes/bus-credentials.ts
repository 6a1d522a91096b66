// Bus credentials of nodes. Each node gets a new token every half hour, valid for an hour. The moment depends on node and time
// only, so all controllers agree on it and a session that moves to another controller does not change; and it differs from node
// to node, so that a fleet does not fetch all of its tokens at once.
import type { CredentialIssuer } from '@muster/bus'
import { sha256Hex, type Clock } from '@muster/host'
import type { NodeId, PublicKey } from '@muster/protocol'

const renewEveryMs = 30 * 60_000
const maxKept = 20_000

export interface NodeCredentials {
  readonly credentials: string | null
  readonly expires_at: string | null
}
export interface BusCredentials {
  /** Changes whenever the node should take a new token. */
  roundOf(id: NodeId): number
  for(node: { readonly id: NodeId; readonly publicKey: PublicKey }): Promise<NodeCredentials>
}

/** For a bus without authorization. */
export const noCredentials: BusCredentials = { roundOf: () => 0, for: async () => ({ credentials: null, expires_at: null }) }

export function createBusCredentials({ issuer, clock }: { issuer: CredentialIssuer; clock: Clock }): BusCredentials {
  const kept = new Map<NodeId, { round: number; made: Promise<NodeCredentials> }>()
  const roundOf = (id: NodeId): number =>
    Math.floor((clock.now() + (Number.parseInt(sha256Hex(id).slice(0, 8), 16) % renewEveryMs)) / renewEveryMs)

  async function make(node: { id: NodeId; publicKey: PublicKey }): Promise<NodeCredentials> {
    const { token, expiresAt } = await issuer.forNode(node)
    return { credentials: token, expires_at: new Date(expiresAt).toISOString() }
  }
  return {
    roundOf,
    // A signature costs 10 ms here, and a fleet polls all the time.
    async for(node) {
      const round = roundOf(node.id)
      const known = kept.get(node.id)
      if (known?.round === round) return await known.made
      if (kept.size >= maxKept) kept.clear()
      const made = make(node)
      kept.set(node.id, { round, made })
      return await made
    },
  }
}
