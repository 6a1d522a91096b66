// /api/models: loads, unloads, deletions and installs from galleries.
import { newId } from '@muster/host'
import { type ModelName, modelRoutes as routes, type NodeId, OperationId } from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import { firstOffers, type ModelCatalogue } from '../models/model-catalogue.ts'
import type { ModelSubmissions } from '../models/submit.ts'
import type { NodeSubmissions } from '../models/submit-on-nodes.ts'
import type { ModelSubmission, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelStore } from '../store/models.ts'
import type { SubmissionStore } from '../store/submissions.ts'
import { Answer, endpoint, type Endpoint, findStoredAnswer, idempotencyKeyOf } from './endpoint.ts'
import { HttpError, modelNotFound } from './http-error.ts'

export interface ModelOperationDeps {
  readonly submissions: ModelSubmissions
  readonly onNodes: NodeSubmissions
  readonly keys: Pick<SubmissionStore, 'remembered'>
}

type Caller = Readonly<{ headers: Headers; principal: Principal }>
type AcceptedOperation = { operation_id: OperationId }

export function modelOperationEndpoints(deps: ModelOperationDeps): Endpoint[] {
  const { load, unload, remove } = deps.submissions
  const { onNodes } = deps
  /** The whole model, or one node. */
  const choose = (whole: Submit, on: NodeSubmissions['load'], nodeId: NodeId | undefined): Submit =>
    nodeId === undefined ? whole : (submission, once) => on({ ...submission, nodeId }, once)
  return [
    endpoint(routes.load, ({ params: { name }, body: { node_id: node }, ...call }) =>
      submit(call, { name, request: ['model load', name, node], to: choose(load, onNodes.load, node) }, deps),
    ),
    endpoint(routes.unload, ({ params: { name }, body: { node_id: node }, ...call }) =>
      submit(call, { name, request: ['model unload', name, node], to: choose(unload, onNodes.unload, node) }, deps),
    ),
    endpoint(routes.remove, ({ params: { name }, query: { node }, ...call }) =>
      submit(call, { name, request: ['model delete', name, node], to: choose(remove, onNodes.remove, node) }, deps),
    ),
    endpoint(routes.prefetch, ({ params: { name }, body, ...call }) =>
      submit(
        call,
        { name, request: ['model prefetch', name, body], to: (submission, once) => onNodes.prefetch({ ...submission, ...body }, once) },
        deps,
      ),
    ),
  ]
}

type Submit = (submission: ModelSubmission, once: Once) => Promise<SubmitOutcome | 'differs'>

interface OperationRequest {
  readonly name: ModelName
  readonly request: unknown
  readonly to: Submit
}

async function submit(
  call: Caller,
  { name, request, to }: OperationRequest,
  { keys }: ModelOperationDeps,
): Promise<Answer<AcceptedOperation>> {
  const key = idempotencyKeyOf(call, request)
  const stored = await findStoredAnswer(keys, key)
  if (stored !== null) return stored
  const id = OperationId.parse(newId('op'))
  const answer = { operation_id: id }
  const once = key === null ? null : { ...key, status: 202, response: answer }
  const outcome = await to({ id, model: name, requestedBy: principalName(call.principal) }, once)
  if (outcome === 'unknown') throw modelNotFound(name)
  if (outcome === 'differs') throw exists(name)
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
        models: firstOffers(models).map(({ gallery, entry: { config, files: _files, ...about } }) => ({
          ...about,
          gallery,
          backend: typeof config['backend'] === 'string' ? config['backend'] : '',
          installed: names.has(about.name),
        })),
        problems: problems.map(({ gallery, failure }) => ({ gallery, message: failure.message })),
      }
    }),
    endpoint(routes.install, ({ body: { model: name }, ...call }) =>
      submit(call, { name, request: ['model install', name], to: deps.submissions.install }, deps),
    ),
  ]
}

const exists = (name: string): HttpError =>
  new HttpError(409, 'conflict', `there is a model ${name} already, with another configuration; delete it first, or keep it`)
