// A command about a backend as the worker keeps it: what is wanted, and which wish of the controllers it
// is. How to answer it (`async`) is not part of it; galleries from the wire and replicas to start are not either.
import { BackendName, Digest, Failure, OperationId } from '@muster/protocol'
import { z } from 'zod'
import type { Wish } from './decide.ts'

const counter = z.number().int().min(0)

export const Order = z.object({
  kind: z.enum(['install', 'upgrade', 'delete']),
  backend: BackendName,
  op_id: OperationId.optional(),
  /** None counts as newest. */
  generation: counter.optional(),
  epoch: counter.optional(),
  uri: z.string().max(2048).optional(),
  digest: Digest.optional(),
  name: BackendName.optional(),
  alias: BackendName.optional(),
  mirrors: z.array(z.string().max(2048)).max(64).optional(),
  version: z.string().max(256).optional(),
  gallery_url: z.string().max(2048).optional(),
  exact: z.boolean().optional(),
  force: z.boolean().optional(),
  strategy: z.enum(['rolling', 'recreate']).optional(),
})
export type Order = z.infer<typeof Order>

export const Outcome = z.discriminatedUnion('state', [
  z.object({ state: z.literal('succeeded'), digest: Digest.optional(), version: z.string().max(256).optional() }),
  z.object({ state: z.literal('failed'), failure: Failure }),
  /** By `op.cancel`, by a newer wish (`superseded`), or with the node's membership. */
  z.object({ state: z.literal('cancelled'), failure: Failure }),
])
export type Outcome = z.infer<typeof Outcome>

/** Every name that may lead to the directory this is about. */
export function namesIn({ backend, name, alias }: Order): BackendName[] {
  return [backend, name, alias].filter((each) => each !== undefined)
}

export function wishOf(order: Order): Wish {
  const { kind, uri, digest, name, alias, exact = false, force = false } = order
  return {
    direction: kind === 'delete' ? 'absent' : 'present',
    digest: digest ?? null,
    content: JSON.stringify([kind, uri, digest, name, alias, exact, force]),
    generation: order.generation ?? null,
    epoch: order.epoch ?? null,
  }
}
