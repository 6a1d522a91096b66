// LocalAI's routes about models: thin layers over /api/models and /api/operations. A job is an operation.
import {
  type AmbiguousImport,
  backendRoutes,
  galleryRoutes,
  type LocalAiApply,
  type LocalAiEdit,
  localAiModelRoutes as routes,
  type ModelConfig,
  modelRoutes,
  OperationId,
  operationRoutes,
  type Route,
  type Scheduling,
  summarizeConversion,
} from '@muster/protocol'
import { checkConfig } from '../models/config.ts'
import { readRaw } from './body.ts'
import { Answer, type Call, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, invalidInput, toHttpError } from './http-error.ts'
import { galleryOf, jobOf, offeredModelOf } from './localai.pure.ts'
import { type ImportPlan, planImport } from './localai-import.pure.ts'
import type { CallOwn } from './own-routes.ts'

export interface LocalAiModelDeps {
  readonly own: CallOwn
  /** Stores a model and fetches its files, as an operation. */
  readonly installConfig: (config: ModelConfig, caller: Call<Route>) => Promise<OperationId>
  /** The address of this controller as the caller knows it, without a path. */
  readonly baseUrlOf: (request: Request) => string
}

export function localAiModelEndpoints(deps: LocalAiModelDeps): Endpoint[] {
  const { own } = deps
  return [
    endpoint(routes.apply, async (call) => {
      return modelJob(operationIdOf(await own(modelRoutes.install, call, { body: installRequestOf(call.body) })), call, deps)
    }),
    endpoint(routes.jobs, async (call) => {
      const { operations } = await own(operationRoutes.list, call, { query: { state: 'all', dismissed: false } })
      return Object.fromEntries(operations.map((operation) => [operation.id, jobOf(operation)]))
    }),
    endpoint(routes.job, async (call) => await findJob(call.params.uuid, call, own)),
    endpoint(routes.remove, async (call) => {
      return modelJob(operationIdOf(await own(modelRoutes.remove, call, { params: call.params })), call, deps)
    }),
    endpoint(routes.available, async (call) => {
      const [{ models }, { galleries }] = await Promise.all([own(modelRoutes.gallery, call), own(galleryRoutes.list, call)])
      return models.map((model) => offeredModelOf(model, galleries))
    }),
    endpoint(routes.galleries, async (call) => {
      const { galleries } = await own(galleryRoutes.list, call)
      return galleries.filter(({ kind }) => kind === 'model').map(galleryOf)
    }),
    endpoint(routes.importUri, async (call) => {
      const { backends } = await own(backendRoutes.gallery, call)
      const plan = planImport(call.body, backends)
      if (plan.kind === 'refused') throw new HttpError(400, 'invalid', plan.message)
      if (plan.kind === 'ambiguous') return new Answer(400, ambiguityOf(plan))
      const config = checkConfig(plan.config, { name: plan.config.name, lineOf: () => null })
      return modelJob(await deps.installConfig(config, call), call, deps)
    }),
    ...editEndpoints(deps),
    ...toggleEndpoints(deps),
  ]
}

/** The answer to the poll of a job. 404 for an unknown one: clients repeat it, as they repeat LocalAI's 500. */
export async function findJob(id: OperationId, call: Call<Route>, own: CallOwn): Promise<ReturnType<typeof jobOf>> {
  try {
    return jobOf(await own(operationRoutes.get, call, { params: { id } }))
  } catch (error) {
    if (toHttpError(error).status !== 404) throw error
    throw new HttpError(404, 'not_found', `could not find any status for ID ${id}; GET /models/jobs lists all jobs`)
  }
}

const modelJob = (uuid: OperationId, { request }: Call<Route>, { baseUrlOf }: LocalAiModelDeps) => ({
  uuid,
  status: `${baseUrlOf(request)}/models/jobs/${uuid}`,
})

/** An answer of a route that may also answer a dry run. */
const operationIdOf = (answer: object): OperationId => OperationId.parse(Reflect.get(answer, 'operation_id'))

/** Fields that the install does not accept are refused by name: a model without them would not be the requested one. */
function installRequestOf({ id, url, config_url: configUrl, name, variant, overrides, files }: LocalAiApply) {
  const file = url || configUrl
  if (file)
    throw new HttpError(
      400,
      'invalid',
      `cannot install from the configuration file ${file}; name an entry of a gallery in "id", or send the configuration to POST /models/import`,
    )
  if (!id) throw new HttpError(400, 'invalid', '"id" is missing: the name of a model, or GALLERY@NAME; GET /models/available lists all')
  const given = Object.entries({ name, variant, overrides, files }).filter(([, value]) => !isEmpty(value))
  const schema = modelRoutes.install.body
  const parsed = schema?.safeParse({ model: id, ...Object.fromEntries(given) })
  if (schema === undefined || parsed === undefined) throw new Error('the install of models takes a body')
  if (!parsed.success) throw invalidInput(parsed.error, schema)
  return parsed.data
}

const isEmpty = (value: unknown): boolean =>
  value === undefined || value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)

/** LocalAI's clients let their user choose among the candidates. */
const ambiguityOf = ({ detail, modality, candidates }: Extract<ImportPlan, { kind: 'ambiguous' }>): AmbiguousImport => ({
  ...{ error: 'ambiguous import', detail, modality, candidates: [...candidates] },
  hint: 'repeat the request with preferences.backend',
})

/** Configurations are text of any type: JSON when the header says so, else YAML, which includes JSON. */
async function configRequestOf(request: Request): Promise<Request> {
  const isJson = request.headers.get('content-type')?.includes('json') === true
  const body = new Uint8Array(await readRaw(request))
  return new Request('http://localhost/', {
    method: 'PUT',
    body,
    headers: { 'content-type': isJson ? 'application/json' : 'application/yaml' },
  })
}

/** Configurations are LocalAI's, also those without a key that only LocalAI has. */
const origin = { from: 'localai' } as const

/** A refused configuration is an answer of these routes, with its reason. */
const refused = (message: string): Answer<LocalAiEdit> =>
  new Answer(400, { success: false, message, error: message, pending_cleanup: false })

function editEndpoints({ own }: LocalAiModelDeps): Endpoint[] {
  const put = async (call: Call<Route>, name: ModelConfig['name'], request: Request) => {
    const { revision, config, keys } = await own(modelRoutes.put, call, { params: { name }, query: origin, request })
    const message = keys === undefined ? `model ${name} is stored` : `model ${name} is stored: ${summarizeConversion(keys)}`
    return { success: true, message, filename: `${name}.yaml`, config, config_revision: revision, pending_cleanup: false }
  }
  return [
    endpoint(routes.import, async (call) => {
      const request = await configRequestOf(call.request)
      const valid = await own(modelRoutes.validate, call, { query: origin, request: request.clone() })
      if (!valid.valid) return refused(valid.problems[0]?.message ?? 'the configuration is not valid')
      const { config: _config, ...stored } = await put(call, valid.config.name, request)
      return stored
    }),
    endpoint(routes.edit, async (call) => {
      const { name } = call.params
      await own(modelRoutes.get, call, { params: { name } })
      const request = await configRequestOf(call.request)
      const valid = await own(modelRoutes.validate, call, {
        query: { name, ...origin },
        request: request.clone(),
      })
      if (!valid.valid) return refused(valid.problems[0]?.message ?? 'the configuration is not valid')
      return await put(call, name, request)
    }),
    endpoint(routes.reload, async () => ({
      success: true,
      message: 'nothing to reload: configurations are in the database, and a change takes effect at once',
      pending_cleanup: false,
    })),
  ]
}

function toggleEndpoints({ own }: LocalAiModelDeps): Endpoint[] {
  return [
    endpoint(routes.toggleState, async (call) => {
      const { name, action } = call.params
      const { config } = await own(modelRoutes.get, call, { params: { name } })
      await own(modelRoutes.scheduling, call, { params: { name }, body: { ...config.scheduling, disabled: action === 'disable' } })
      const message =
        action === 'enable'
          ? `model ${name} is enabled; the next request loads it`
          : `model ${name} is disabled: it is unloaded and refuses requests`
      return { success: true, message, filename: `${name}.yaml`, pending_cleanup: false }
    }),
    endpoint(routes.togglePinned, async (call) => {
      const { name, action } = call.params
      const { config } = await own(modelRoutes.get, call, { params: { name } })
      await own(modelRoutes.scheduling, call, { params: { name }, body: pinned(config.scheduling, action === 'pin') })
      const message =
        action === 'pin' ? `one replica of model ${name} stays loaded` : `replicas of model ${name} are removed when they are idle`
      return { success: true, message, filename: `${name}.yaml`, pending_cleanup: false }
    }),
  ]
}

/** A model that runs on all nodes is never idle-stopped. */
function pinned(scheduling: Scheduling, isPinned: boolean): Scheduling {
  if (scheduling.replicas !== undefined) return scheduling
  return { ...scheduling, min_replicas: isPinned ? Math.max(1, scheduling.min_replicas ?? 0) : 0 }
}
