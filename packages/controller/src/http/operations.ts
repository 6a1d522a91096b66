// /api/operations: lists, cancels and retries operations.
import { operationRoutes as routes, type OperationId, type OperationView } from '@muster/protocol'
import type { OperationRecord, OperationStore } from '../store/operations.ts'
import type { ModelJobStore } from '../store/model-jobs.ts'
import type { ReopenStore } from '../store/reopen.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { endpoint, type Endpoint, findStoredAnswer, idempotencyKeyOf } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

export interface OperationEndpointDeps {
  readonly operations: OperationStore
  readonly reopen: ReopenStore
  /** Cancels and retries operations on models. */
  readonly modelJobs: Pick<ModelJobStore, 'cancel' | 'retry'>
  readonly idempotency: Pick<SubmissionStore, 'remembered'>
  readonly view: (operation: OperationRecord) => OperationView
  readonly wake: () => void
}

const noSuchOperation = (id: string): HttpError =>
  notFound(`operation ${id} does not exist; GET /api/operations?state=all lists all operations`)

export function operationEndpoints({ operations, reopen, modelJobs, idempotency, view: viewOf, wake }: OperationEndpointDeps): Endpoint[] {
  const view = async (id: OperationId): Promise<OperationView> => {
    const operation = await operations.find(id)
    if (operation === null) throw noSuchOperation(id)
    return viewOf(operation)
  }
  const storeOf = async (id: OperationId) => ((await operations.find(id))?.job === null ? reopen : modelJobs)
  return [
    endpoint(routes.list, async ({ query }) => ({
      operations: (await operations.list(query.state)).map(viewOf),
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
      const outcome = await (await storeOf(id)).retry({ id, nodeId }, key)
      const where = nodeId === null ? '' : ` on node ${nodeId}`
      if (outcome === 'unknown') throw noSuchOperation(id)
      if (outcome === 'nothing_failed')
        throw new HttpError(409, 'nothing_failed', `operation ${id} has not failed${where}; there is nothing to retry`)
      if (outcome === 'superseded')
        throw new HttpError(
          409,
          'superseded',
          `the intent of operation ${id}${where} was superseded, or its node was removed; submit a new operation`,
        )
      if (outcome === 'rolling_out' || outcome === 'returning')
        throw new HttpError(
          409,
          'conflict',
          `the rollout of operation ${id} is still ${outcome === 'returning' ? 'rolling back' : 'in progress'}; retry when it has ended`,
        )
      wake()
      return await view(id)
    }),
  ]
}
