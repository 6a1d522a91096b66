// /api/models: loading, unloading, deleting and installing. What is asked for becomes one transaction, or an error.
import { newId } from '@muster/host'
import { modelRoutes as routes, OperationId, type ModelName } from '@muster/protocol'
import type { Principal } from '../auth/principal.ts'
import { nameOf } from '../auth/principal-name.ts'
import { limitsOf } from '../models/desired.ts'
import type { ShowModels } from '../models/show-models.ts'
import type { ModelStore } from '../store/models.ts'
import type { ModelSubmission, ModelSubmissionStore, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { answeredBefore, idempotencyKeyOf } from './idempotency.ts'
import { noSuchModel } from './models.ts'

export interface ModelWishDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly show: ShowModels
  readonly wishes: ModelSubmissionStore
  readonly keys: Pick<SubmissionStore, 'remembered'>
  /** There may be something to do. */
  readonly wake: (model: ModelName) => Promise<void>
}

type Caller = Readonly<{ headers: Headers; principal: Principal }>
type Accepted = { operation_id: OperationId }

export function modelWishEndpoints(deps: ModelWishDeps): Endpoint[] {
  const { wishes } = deps
  return [
    endpoint(routes.load, async ({ params: { name }, ...call }) => {
      const load = async (wish: ModelSubmission, once: Once) => wishes.load({ ...wish, replicas: await askedOf(name, deps) }, once)
      return await submitWish(call, { name, request: ['model load', name], wish: load }, deps)
    }),
    endpoint(routes.unload, async ({ params: { name }, ...call }) => {
      const request = ['model unload', name]
      return await submitWish(call, { name, request, wish: (wish, once) => wishes.unload(wish, once) }, deps)
    }),
    endpoint(routes.remove, async ({ params: { name }, ...call }) => {
      const request = ['model delete', name]
      return await submitWish(call, { name, request, wish: (wish, once) => wishes.remove(wish, once) }, deps)
    }),
  ]
}

/** One, or its minimum, or one for every node that fits. */
async function askedOf(name: ModelName, { models, show }: ModelWishDeps): Promise<number> {
  const model = await models.find(name)
  if (model === null) throw noSuchModel(name)
  const { scheduling } = model.config
  if (scheduling.replicas !== 'all') return Math.max(1, limitsOf(scheduling).min)
  const [view] = await show([{ ...model, isUnloaded: false }])
  return Math.max(1, view?.replicas_desired ?? 0)
}

export interface Asked {
  readonly name: ModelName
  readonly request: unknown
  readonly wish: (wish: ModelSubmission, once: Once) => Promise<SubmitOutcome>
}

export async function submitWish(call: Caller, { name, request, wish }: Asked, { keys, wake }: ModelWishDeps): Promise<Answer<Accepted>> {
  const key = idempotencyKeyOf(call, request)
  const before = await answeredBefore(keys, key)
  if (before !== null) return before
  const id = OperationId.parse(newId('op'))
  const answer = { operation_id: id }
  const once = key === null ? null : { ...key, status: 202, response: answer }
  const outcome = await wish({ id, model: name, requestedBy: nameOf(call.principal) }, once)
  if (outcome === 'unknown') throw noSuchModel(name)
  await wake(name)
  return outcome === 'repeated' ? ((await answeredBefore(keys, key)) ?? new Answer(202, answer)) : new Answer(202, answer)
}
