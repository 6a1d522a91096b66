// All work of this worker by operation ID. Backend operations and model loads register what they have; `op.status` and
// `op.cancel` look it up here, whatever kind of work it is.
import { type Clock, errorCode, errorMessage, settlesWithin } from '@muster/host'
import { FleetError, type OperationId, type OpStatusReply } from '@muster/protocol'

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

/** A record that could not be written. `what`: `the command`. */
export function notStored(what: string, error: unknown): FleetError {
  const isFull = errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT'
  const reason = errorMessage(error)
  const message = isFull
    ? `cannot store ${what}: the disk is full; free space in the data directory of this worker`
    : `cannot store ${what} in the data directory of this worker: ${reason}`
  return new FleetError({ code: isFull ? 'disk_full' : 'unavailable', retry: 'backoff', message }, { cause: error })
}
