// /api/models: loads, unloads, deletions and installs from galleries.
import { inLanes, newId } from '@muster/host'
import { type ModelName, modelRoutes as routes, type NodeId, OperationId } from '@muster/protocol'
import { type Principal, principalName } from '../auth/principal.ts'
import type { BaseFiles, BaseQuery } from '@muster/source'
import type { ModelCatalogue, OfferedModels } from '../models/model-catalogue.ts'
import { showOffers, unreadBases } from '../models/offered-models.ts'
import type { PlanModelInstall } from '../models/plan-install.ts'
import type { Installed, ModelSubmissions } from '../models/submit.ts'
import type { NodeSubmissions } from '../models/submit-on-nodes.ts'
import type { ModelSubmission, Once, SubmitOutcome } from '../store/model-submissions.ts'
import type { ModelStore } from '../store/models.ts'
import type { NodeStore } from '../store/nodes.ts'
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

async function submit(call: Caller, { name, request, to }: OperationRequest, deps: ModelOperationDeps): Promise<Answer<AcceptedOperation>> {
  return await submitOnce(
    call,
    { request, to: async (submission, once) => ({ outcome: await to({ ...submission, model: name }, once), model: name }) },
    deps,
  )
}

interface OnceRequest {
  /** Identifies the request to its Idempotency-Key. */
  readonly request: unknown
  readonly to: (submission: Omit<ModelSubmission, 'model'>, once: Once) => Promise<Installed>
}

async function submitOnce(call: Caller, { request, to }: OnceRequest, { keys }: ModelOperationDeps): Promise<Answer<AcceptedOperation>> {
  const key = idempotencyKeyOf(call, request)
  const stored = await findStoredAnswer(keys, key)
  if (stored !== null) return stored
  const id = OperationId.parse(newId('op'))
  const answer = { operation_id: id }
  const once = key === null ? null : { ...key, status: 202, response: answer }
  const { outcome, model } = await to({ id, requestedBy: principalName(call.principal) }, once)
  if (outcome === 'unknown') throw modelNotFound(model)
  if (outcome === 'differs') throw exists(model)
  return outcome === 'repeated' ? ((await findStoredAnswer(keys, key)) ?? new Answer(202, answer)) : new Answer(202, answer)
}

interface ModelGalleryDeps extends ModelOperationDeps {
  readonly catalogue: ModelCatalogue
  readonly bases: BaseFiles
  readonly planInstall: PlanModelInstall
  readonly list: Pick<ModelStore, 'list'>
  readonly nodes: Pick<NodeStore, 'list'>
  readonly stopping: AbortSignal
}

export function modelGalleryEndpoints(deps: ModelGalleryDeps): Endpoint[] {
  const { catalogue, bases, submissions, planInstall } = deps
  const warming = createWarming(deps)
  return [
    endpoint(routes.gallery, async () => {
      const [offers, models, nodes] = await Promise.all([catalogue(), deps.list.list(), deps.nodes.list()])
      warming(offers)
      const installed = new Set<string>(models.map(({ name }) => name))
      return {
        models: showOffers(offers, { bases, nodes, installed }),
        problems: offers.problems.map(({ gallery, failure }) => ({ gallery, message: failure.message })),
        left_out: [...offers.leftOut],
      }
    }),
    endpoint(routes.install, async ({ body: { dry_run: isDry, ...request }, ...call }) => {
      if (isDry === true) {
        const { config, keys, variant } = await planInstall(request)
        return new Answer(200, { config, keys: [...keys], variant: variant === null ? null : { ...variant, all: [...variant.all] } })
      }
      const to: OnceRequest['to'] = (submission, once) => submissions.install(request, submission, once)
      return await submitOnce(call, { request: ['model install', request], to }, deps)
    }),
  ]
}

const warmsAtOnce = 4

/** Reads base files in the background, so that the next list names the backends. One reading at a time. */
function createWarming({ bases, stopping }: Pick<ModelGalleryDeps, 'bases' | 'stopping'>): (offers: OfferedModels) => void {
  let isBusy = false
  return (offers) => {
    const unread = unreadBases(offers, bases)
    if (isBusy || unread.length === 0) return
    isBusy = true
    const read = (query: BaseQuery): Promise<unknown> => bases.read(query, stopping).catch(() => null)
    void inLanes(unread, { atOnce: warmsAtOnce, signal: stopping }, read)
      .catch(() => null)
      .finally(() => (isBusy = false))
  }
}

const exists = (name: string): HttpError =>
  new HttpError(409, 'conflict', `there is a model ${name} already, with another configuration; delete it first, or keep it`)
