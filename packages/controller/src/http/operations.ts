// /api/operations: lists, cancels, retries, pauses and dismisses operations.
import {
  type NodeId,
  type OperationControl,
  operationRoutes as routes,
  type OperationId,
  type OperationView,
  unreachable,
} from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import type { OperationRecord, OperationStore } from '../store/operations.ts'
import type { ModelJobStore } from '../store/model-jobs.ts'
import type { ControlResult, PauseStore } from '../store/pauses.ts'
import type { ReopenStore, RetryResult } from '../store/reopen.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { endpoint, type Endpoint, findStoredAnswer, idempotencyKeyOf } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

export interface OperationEndpointDeps {
  readonly operations: OperationStore
  readonly reopen: ReopenStore
  readonly pauses: PauseStore
  /** Cancels and retries operations on models. */
  readonly modelJobs: Pick<ModelJobStore, 'cancel' | 'retry'>
  readonly idempotency: Pick<SubmissionStore, 'remembered'>
  readonly view: (operation: OperationRecord) => OperationView
  readonly wake: () => void
}

const noSuchOperation = (id: string): HttpError =>
  notFound(`operation ${id} does not exist; GET /api/operations?state=all lists all operations`)

export function operationEndpoints(deps: OperationEndpointDeps): Endpoint[] {
  const { operations, reopen, pauses, modelJobs, idempotency, view: viewOf, wake } = deps
  const view = async (id: OperationId): Promise<OperationView> => {
    const operation = await operations.find(id)
    if (operation === null) throw noSuchOperation(id)
    return viewOf(operation)
  }
  const control = async (id: OperationId, verb: OperationControl, principal: Principal): Promise<OperationView> => {
    const refusal = refusalOf(id, verb, await pauses.control(id, verb, principalName(principal)))
    if (refusal !== null) throw refusal
    wake()
    return await view(id)
  }
  const storeOf = async (id: OperationId) => ((await operations.find(id))?.job === null ? reopen : modelJobs)
  return [
    endpoint(routes.list, async ({ query }) => ({
      operations: (await operations.list(query.state, query.dismissed)).map(viewOf),
    })),
    endpoint(routes.get, async ({ params }) => await view(params.id)),
    endpoint(routes.history, async ({ params: { id } }) => {
      if ((await operations.find(id)) === null) throw noSuchOperation(id)
      const events = await operations.history(id)
      return { events: events.map(({ nodeId, ...event }) => ({ node_id: nodeId, ...event })) }
    }),
    endpoint(routes.cancel, async ({ params: { id }, ...call }) => {
      const key = idempotencyKeyOf(call, ['cancel', id])
      if ((await findStoredAnswer(idempotency, key)) !== null) return await view(id)
      const outcome = await (await storeOf(id)).cancel(id, key)
      if (outcome === 'unknown') throw noSuchOperation(id)
      if (outcome === 'already_finished')
        throw new HttpError(409, 'already_finished', `operation ${id} has finished; there is nothing to cancel`)
      wake()
      return await view(id)
    }),
    endpoint(routes.retry, async ({ params: { id }, body: { node_id: nodeId = null }, ...call }) => {
      const key = idempotencyKeyOf(call, ['retry', id, nodeId])
      if ((await findStoredAnswer(idempotency, key)) !== null) return await view(id)
      const refusal = retryRefusalOf(id, nodeId, await (await storeOf(id)).retry({ id, nodeId }, key))
      if (refusal !== null) throw refusal
      wake()
      return await view(id)
    }),
    endpoint(routes.pause, ({ params: { id }, principal }) => control(id, 'pause', principal)),
    endpoint(routes.resume, ({ params: { id }, principal }) => control(id, 'resume', principal)),
    endpoint(routes.dismiss, ({ params: { id }, principal }) => control(id, 'dismiss', principal)),
  ]
}

/** Null: nodes are retried. */
function retryRefusalOf(id: OperationId, nodeId: NodeId | null, outcome: RetryResult): HttpError | null {
  const where = nodeId === null ? '' : ` on node ${nodeId}`
  switch (outcome) {
    case 'done':
      return null
    case 'unknown':
      return noSuchOperation(id)
    case 'nothing_failed':
      return new HttpError(409, outcome, `operation ${id} has not failed${where}; there is nothing to retry`)
    case 'paused':
      return new HttpError(409, outcome, `operation ${id} is paused; resume it first`)
    case 'superseded':
      return new HttpError(
        409,
        outcome,
        `the intent of operation ${id}${where} was superseded, or its node was removed; submit a new operation`,
      )
    case 'rolling_out':
    case 'returning': {
      const what = outcome === 'returning' ? 'rolling back' : 'in progress'
      return new HttpError(409, 'conflict', `the rollout of operation ${id} is still ${what}; retry when it has ended`)
    }
    default:
      return unreachable(outcome)
  }
}

/** Null: the operation is as requested. */
function refusalOf(id: OperationId, verb: OperationControl, outcome: ControlResult): HttpError | null {
  switch (outcome) {
    case 'do':
    case 'done':
      return null
    case 'unknown':
      return noSuchOperation(id)
    case 'already_finished':
      return new HttpError(409, outcome, `operation ${id} has finished; there is nothing to ${verb}`)
    case 'not_finished':
      return new HttpError(409, outcome, `operation ${id} has not finished; cancel it first, or pause it`)
    case 'cancelling':
      return new HttpError(409, outcome, `operation ${id} is being cancelled; no further attempt begins`)
    case 'cannot_pause':
      return new HttpError(
        409,
        outcome,
        'only operations about backends and installs of models can be paused; cancel this one instead, or unload the model',
      )
    default:
      return unreachable(outcome)
  }
}
