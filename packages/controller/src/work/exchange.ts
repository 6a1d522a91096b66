// The exchange with a worker about one operation: the status query, the cancel request, and how a request failed.
import { BusError, type Bus } from '@muster/bus'
import {
  failureOf,
  FleetError,
  opCancel,
  opStatus,
  type Failure,
  type NodeId,
  type OperationId,
  type OpStatusReply,
} from '@muster/protocol'

export type WorkKey = Readonly<{ nodeId: NodeId; opId: OperationId }>
export type RequestLimits = Readonly<{ timeoutMs: number; signal: AbortSignal }>

export async function queryStatus(bus: Bus, { nodeId: node, opId: op_id }: WorkKey, limits: RequestLimits): Promise<OpStatusReply> {
  return await bus.request(opStatus, { node }, { op_id }, limits)
}

/** The reply contains the end of the work, or that it still runs. */
export async function requestCancel(bus: Bus, { nodeId: node, opId: op_id }: WorkKey, limits: RequestLimits): Promise<OpStatusReply> {
  return await bus.request(opCancel, { node }, { op_id }, limits)
}

/** Why a request to a worker got no reply. */
export type RequestError =
  /** The worker refused: it threw a failure. */
  | Readonly<{ is: 'refused'; failure: Failure }>
  /** Nothing on the node listens: the request was not carried out. */
  | Readonly<{ is: 'no_responders'; failure: Failure }>
  /** The request may have been carried out, or be carried out later. */
  | Readonly<{ is: 'unknown'; hasTimedOut: boolean; failure: Failure }>
  /** Worker and controller do not understand each other; the worker may carry out the request nevertheless. */
  | Readonly<{ is: 'garbled'; failure: Failure }>

/** Null: not an error of the worker or of the bus, so a bug of this controller. `commands`: kind of commands that nothing listens for. */
export function requestErrorOf(error: unknown, commands: string): RequestError | null {
  if (error instanceof FleetError) return { is: 'refused', failure: error.failure }
  if (!(error instanceof BusError)) return null
  switch (error.code) {
    case 'no_responders':
      return { is: 'no_responders', failure: unavailable(`the worker reports, but nothing on it listens for ${commands} commands`) }
    case 'timeout':
    case 'disconnected':
    case 'closed':
      return { is: 'unknown', hasTimedOut: error.code === 'timeout', failure: unavailable(error.message) }
    case 'too_large':
    case 'invalid': {
      const message = `the worker and this controller do not understand each other: ${error.message}`.slice(0, 8192)
      return { is: 'garbled', failure: { code: 'internal', retry: 'backoff', message } }
    }
    default:
      return { is: 'garbled', failure: failureOf(error) }
  }
}

const unavailable = (message: string): Failure => ({ code: 'unavailable', retry: 'backoff', message })
