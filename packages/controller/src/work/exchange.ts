// Messages from and to workers. Receives everything that workers publish: one subscription per topic and controller, parsed once,
// dispatched by type; receivers only enqueue and return at once, so a slow write of one type delays neither another type nor
// another node. Sends the status query and the cancel request of one operation, and classifies failed requests.
import { type Bus, BusError, type Subscription } from '@muster/bus'
import type { Log } from '@muster/host'
import {
  type Failure,
  failureOf,
  FleetError,
  heartbeat,
  type Heartbeat,
  type NodeEvent,
  nodeEvents,
  type NodeId,
  opCancel,
  type OperationId,
  opStatus,
  type OpStatusReply,
  progress,
  type Progress,
  unreachable,
} from '@muster/protocol'
import { kindOfWork, type WorkKind } from './exchange.pure.ts'

export type EventOf<T extends NodeEvent['type']> = Extract<NodeEvent, { type: T }>
export type ReplicaEvent = EventOf<'replica.ready' | 'replica.exited'>
export type ResultEvent = EventOf<'op.result'>

/**
 * How many messages of one node may wait, so that a node that floods displaces no message of another. Heartbeats repeat, and
 * a lost result is queried.
 */
const maxPendingOfNode = { heartbeats: 16, events: 256 }

/** Synchronous and bounded: each receiver has its own queue and logs what it drops when the queue is full. */
type Receive<M> = (message: M, node: NodeId) => void

export interface Receivers {
  readonly heartbeat?: readonly Receive<Heartbeat>[]
  /** A heartbeat of an unknown node was lost in the inbox of this controller. */
  readonly lostHeartbeat?: () => void
  readonly leaving?: Receive<EventOf<'leaving'>>
  readonly inventory?: Receive<EventOf<'inventory'>>
  readonly replica?: Receive<ReplicaEvent>
  /** The id of its operation decides which kind of work a result belongs to. */
  readonly result?: Readonly<Partial<Record<WorkKind, Receive<ResultEvent>>>>
  readonly progress?: Receive<Progress>
}

interface InboundDeps {
  readonly bus: Bus
  readonly receivers: Receivers
  readonly log: Log
}

export function createInbound({ bus, receivers, log }: InboundDeps) {
  /** A receiver that throws does not block the others. */
  const deliver = <M>(to: readonly Receive<M>[], message: M, node: NodeId): void => {
    for (const receive of to) {
      try {
        receive(message, node)
      } catch (error) {
        log.error('cannot receive a message of a node', { node, error })
      }
    }
  }
  const dispatch = (event: NodeEvent, node: NodeId): void => {
    switch (event.type) {
      case 'op.result':
        return deliver(listOf(receivers.result?.[kindOfWork(event.op_id)]), event, node)
      case 'inventory':
        return deliver(listOf(receivers.inventory), event, node)
      case 'replica.ready':
      case 'replica.exited':
        return deliver(listOf(receivers.replica), event, node)
      case 'leaving':
        return deliver(listOf(receivers.leaving), event, node)
      default:
        return unreachable(event)
    }
  }
  const receiveHeartbeat = (beat: Heartbeat, { node }: { node: NodeId }): void => {
    if (beat.node_id === node) deliver(receivers.heartbeat ?? [], beat, node)
  }
  const subscribeProgress = (): Subscription | null => {
    try {
      return bus.subscribe(progress, { node: '*', op: '*' }, (message, { node, op }) => {
        if (message.node_id === node && message.op_id === op) deliver(listOf(receivers.progress), message, node)
      })
    } catch (error) {
      // Operations run without it; only their progress is not shown.
      log.warn('cannot subscribe to the progress of operations; results are still received', { error })
      return null
    }
  }

  return {
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const everyNode = { node: '*' } as const
      const subscriptions = [
        // Every controller receives every heartbeat: a queue group would lose those handed to a controller that hangs.
        bus.subscribe(heartbeat, everyNode, receiveHeartbeat, {
          maxPerSubject: maxPendingOfNode.heartbeats,
          onOverflow: () => receivers.lostHeartbeat?.(),
        }),
        bus.subscribe(nodeEvents, everyNode, (event, { node }) => dispatch(event, node), { maxPerSubject: maxPendingOfNode.events }),
        subscribeProgress(),
      ]
      await aborted(signal)
      await Promise.all(subscriptions.map(async (subscription) => await subscription?.stop()))
    },
  }
}

const listOf = <M>(receive: Receive<M> | undefined): readonly Receive<M>[] => (receive === undefined ? [] : [receive])

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

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
  | Readonly<{ is: 'unknown'; failure: Failure }>
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
      return { is: 'unknown', failure: unavailable(error.message) }
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
