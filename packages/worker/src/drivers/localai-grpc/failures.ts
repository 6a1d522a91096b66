// What a refusal of a backend means to whoever asked.
import { FleetError } from '@muster/protocol'
import { unreachableProcess } from '../sure-pool.ts'
import type { ReplicaSpec } from '../driver.ts'
import type { GrpcFailure } from './client.ts'

/** An answer that tells the caller what is wrong. */
export type Refusal = Readonly<{ status: number; message: string; param?: string }>

/**
 * A process that is not there, has no model or has another one is not this replica, whatever it may be able to do (I14):
 * that is thrown, so that another replica is asked.
 */
export function refusalFrom(spec: ReplicaSpec, { code, message }: GrpcFailure): Refusal {
  switch (code) {
    case 'UNAVAILABLE':
    case 'FAILED_PRECONDITION':
      throw unreachableProcess(spec, new Error(message))
    case 'NOT_FOUND':
      if (/model identity mismatch/i.test(message)) throw unreachableProcess(spec, new Error(message))
      return { status: 404, message }
    case 'UNIMPLEMENTED':
      return { status: 501, message: `the backend ${spec.backend} can not do this: ${message}` }
    case 'INVALID_ARGUMENT':
    case 'OUT_OF_RANGE':
      return { status: 400, message }
    case 'RESOURCE_EXHAUSTED':
      return { status: 429, message }
    default:
      return { status: 500, message: `the backend ${spec.backend} failed: ${message}` }
  }
}

export const loadFailed = (spec: ReplicaSpec, message: string, cause?: unknown): FleetError =>
  new FleetError(
    { code: 'internal', retry: 'backoff', message: `${spec.backend} could not load the model ${spec.model}: ${message}`.slice(0, 8000) },
    { cause },
  )
