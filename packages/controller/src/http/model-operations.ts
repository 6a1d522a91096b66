// /api/models: submits loads, unloads, deletions and installs from galleries. A submission is one transaction.
import { newId } from '@muster/host'
import { type ModelName, modelRoutes as routes, OperationId } from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import { limitsOf } from '../models/desired.pure.ts'
import { findModel, type ModelCatalogue } from '../models/model-catalogue.ts'
import { revisionOf } from '../models/config.ts'
import type { ShowModels } from '../models/view.ts'
import type { ModelSubmission, ModelSubmissionStore, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelStore } from '../store/models.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, modelNotFound } from './http-error.ts'
import { findStoredAnswer, idempotencyKeyOf } from './idempotency.ts'

export interface ModelOperationDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly show: ShowModels
  readonly submissions: ModelSubmissionStore
  readonly keys: Pick<SubmissionStore, 'remembered'>
  readonly wake: (model: ModelName) => Promise<void>
}

type Caller = Readonly<{ headers: Headers; principal: Principal }>
type Accepted = { operation_id: OperationId }

export function modelOperationEndpoints(deps: ModelOperationDeps): Endpoint[] {
  const { submissions } = deps
  return [
    endpoint(routes.load, async ({ params: { name }, ...call }) => {
      const load = async (submission: ModelSubmission, once: Once) =>
        submissions.load({ ...submission, replicas: await countReplicas(name, deps) }, once)
      return await submitModelOperation(call, { name, request: ['model load', name], submit: load }, deps)
    }),
    endpoint(routes.unload, async ({ params: { name }, ...call }) => {
      const request = ['model unload', name]
      return await submitModelOperation(call, { name, request, submit: (submission, once) => submissions.unload(submission, once) }, deps)
    }),
    endpoint(routes.remove, async ({ params: { name }, ...call }) => {
      const request = ['model delete', name]
      return await submitModelOperation(call, { name, request, submit: (submission, once) => submissions.remove(submission, once) }, deps)
    }),
  ]
}

/** One, or the model's minimum, or one for every node that fits. */
async function countReplicas(name: ModelName, { models, show }: ModelOperationDeps): Promise<number> {
  const model = await models.find(name)
  if (model === null) throw modelNotFound(name)
  const { scheduling } = model.config
  if (scheduling.replicas !== 'all') return Math.max(1, limitsOf(scheduling).min)
  const [view] = await show([{ ...model, isUnloaded: false }])
  return Math.max(1, view?.replicas_desired ?? 0)
}

interface OperationRequest {
  readonly name: ModelName
  readonly request: unknown
  readonly submit: (submission: ModelSubmission, once: Once) => Promise<SubmitOutcome>
}

async function submitModelOperation(
  call: Caller,
  { name, request, submit }: OperationRequest,
  { keys, wake }: ModelOperationDeps,
): Promise<Answer<Accepted>> {
  const key = idempotencyKeyOf(call, request)
  const stored = await findStoredAnswer(keys, key)
  if (stored !== null) return stored
  const id = OperationId.parse(newId('op'))
  const answer = { operation_id: id }
  const once = key === null ? null : { ...key, status: 202, response: answer }
  const outcome = await submit({ id, model: name, requestedBy: principalName(call.principal) }, once)
  if (outcome === 'unknown') throw modelNotFound(name)
  await wake(name)
  return outcome === 'repeated' ? ((await findStoredAnswer(keys, key)) ?? new Answer(202, answer)) : new Answer(202, answer)
}

interface ModelGalleryDeps extends ModelOperationDeps {
  readonly catalogue: ModelCatalogue
  readonly list: Pick<ModelStore, 'list'>
}

export function modelGalleryEndpoints(deps: ModelGalleryDeps): Endpoint[] {
  return [
    endpoint(routes.gallery, async () => {
      const [{ models, problems }, installed] = await Promise.all([deps.catalogue(), deps.list.list()])
      const names = new Set<string>(installed.map(({ name }) => name))
      return {
        models: models.map(({ gallery, entry: { config, files: _files, ...about } }) => ({
          ...about,
          gallery,
          backend: typeof config['backend'] === 'string' ? config['backend'] : '',
          installed: names.has(about.name),
        })),
        problems: problems.map(({ gallery, failure }) => ({ gallery, message: failure.message })),
      }
    }),
    endpoint(routes.install, async ({ body: { model: name }, ...call }) => {
      const submit: OperationRequest['submit'] = async (submission, once) => {
        const config = findModel(await deps.catalogue(), name)
        const outcome = await deps.submissions.install({ ...submission, config, revision: revisionOf(config) }, once)
        if (outcome === 'differs') throw exists(name)
        return outcome
      }
      return await submitModelOperation(call, { name, request: ['model install', name], submit }, deps)
    }),
  ]
}

const exists = (name: string): HttpError =>
  new HttpError(409, 'conflict', `there is a model ${name} already, with another configuration; delete it first, or keep it`)
