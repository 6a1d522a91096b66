// A command about a backend, as the worker stores it. `async`, galleries from the wire and replicas to start are no part of it.
import { BackendName, Digest, Failure, OperationId } from '@muster/protocol'
import { z } from 'zod'
import type { BackendIntent } from './admission.pure.ts'

const counter = z.number().int().min(0)

export const BackendCommand = z.object({
  kind: z.enum(['install', 'upgrade', 'delete']),
  backend: BackendName,
  op_id: OperationId.optional(),
  /** A command without one counts as newest. */
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
export type BackendCommand = z.infer<typeof BackendCommand>

export const Outcome = z.discriminatedUnion('state', [
  z.object({ state: z.literal('succeeded'), digest: Digest.optional(), version: z.string().max(256).optional() }),
  z.object({ state: z.literal('failed'), failure: Failure }),
  /** By `op.cancel`, by a newer intent (`superseded`), or with the node's membership. */
  z.object({ state: z.literal('cancelled'), failure: Failure }),
])
export type Outcome = z.infer<typeof Outcome>

/** Every name that may lead to the directory of this backend. */
export function namesIn({ backend, name, alias }: BackendCommand): BackendName[] {
  return [backend, name, alias].filter((each) => each !== undefined)
}

export function intentOf(command: BackendCommand): BackendIntent {
  const { kind, uri, digest, name, alias, exact = false, force = false } = command
  return {
    direction: kind === 'delete' ? 'absent' : 'present',
    digest: digest ?? null,
    content: JSON.stringify([kind, uri, digest, name, alias, exact, force]),
    generation: command.generation ?? null,
    epoch: command.epoch ?? null,
  }
}
