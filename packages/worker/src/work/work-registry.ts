// All work of this worker by operation ID. Backend operations and model loads register what they have; `op.status` and
// `op.cancel` look it up here, whatever kind of work it is.
import { settlesWithin, type Clock } from '@muster/host'
import type { OperationId, OpStatusReply } from '@muster/protocol'

export interface RegisteredWork {
  status(opId: OperationId): OpStatusReply
  /** Resolves when the work has ended. Ended work is left alone. */
  cancel(): Promise<unknown>
}

export interface WorkRegistry {
  /** The latest registration of an ID counts. */
  register(opId: OperationId, work: RegisteredWork): void
  /** Does nothing when another piece of work has the ID by now. */
  release(opId: OperationId, work: RegisteredWork): void
  status(opId: OperationId): OpStatusReply
  /** Resolves when the work has ended, and after a second in any case. */
  cancel(opId: OperationId): Promise<OpStatusReply>
}

const cancelWaitMs = 1_000

export function createWorkRegistry({ clock }: { clock: Clock }): WorkRegistry {
  const works = new Map<OperationId, RegisteredWork>()
  const status = (opId: OperationId): OpStatusReply => works.get(opId)?.status(opId) ?? { op_id: opId, state: 'unknown' }
  return {
    register: (opId, work) => void works.set(opId, work),
    release: (opId, work) => void (works.get(opId) === work && works.delete(opId)),
    status,
    async cancel(opId) {
      const work = works.get(opId)
      if (work !== undefined) await settlesWithin({ clock, ms: cancelWaitMs }, work.cancel())
      return status(opId)
    },
  }
}
