// LocalAI's routes about what runs: loaded models, the state of one, load and unload; and the models with their capabilities.
import type { Clock } from '@muster/host'
import {
  backendRoutes,
  inferenceRoutes,
  localAiSystemRoutes as routes,
  type ModelName,
  modelRoutes,
  type OperationId,
  operationRoutes,
  type OperationView,
  type Route,
} from '@muster/protocol'
import { type Call, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'
import { capabilitiesOf, monitorOf } from './localai.pure.ts'
import type { CallOwn } from './own-routes.ts'

export interface LocalAiSystemDeps {
  readonly own: CallOwn
  readonly clock: Clock
}

/** A load or unload is looked at this often while a client waits for it. */
const lookEveryMs = 250
/** A client that waits longer gets an answer; the work continues. */
const maxWaitMs = 600_000

export function localAiSystemEndpoints({ own, clock }: LocalAiSystemDeps): Endpoint[] {
  const monitor = async (call: Call<typeof routes.monitor>): Promise<{ state?: number }> => {
    const name = call.query.model ?? call.body.model
    if (name === undefined) throw new HttpError(400, 'invalid', 'name the model: GET /backend/monitor?model=NAME, or in a JSON body')
    return await monitorModel(name, call, own)
  }
  const shutdown = async (call: Call<typeof routes.shutdown>): Promise<{ message: string }> => {
    const { model: name } = call.body
    const { state } = await own(modelRoutes.get, call, { params: { name } })
    if (state === 'unloaded') throw new HttpError(404, 'not_loaded', `model ${name} is not loaded`)
    const { operation_id: id } = await own(modelRoutes.unload, call, { params: { name }, body: {} })
    const end = await untilEnd(id, call, { own, clock })
    if (end === null) return { message: `model ${name} still stops; GET /models/jobs/${id} shows it` }
    if (end.state !== 'succeeded') throw new HttpError(500, 'unload_failed', `cannot stop model ${name}: ${end.message}`)
    return { message: 'model stopped' }
  }
  return [
    endpoint(routes.system, async (call) => {
      const [{ backends }, { models }] = await Promise.all([own(backendRoutes.list, call), own(modelRoutes.list, call)])
      const loaded = models.filter(({ replicas_ready: ready }) => ready > 0)
      return { backends: backends.map(({ name }) => name), loaded_models: loaded.map(({ name, backend }) => ({ id: name, backend })) }
    }),
    endpoint(routes.monitor, monitor),
    endpoint(routes.monitorV1, monitor),
    endpoint(routes.shutdown, shutdown),
    endpoint(routes.shutdownV1, shutdown),
    endpoint(routes.load, async (call) => {
      const { model: name } = call.body
      const { operation_id: id } = await own(modelRoutes.load, call, { params: { name }, body: {} })
      const end = await untilEnd(id, call, { own, clock })
      if (end === null) throw new HttpError(500, 'still_loading', `model ${name} still loads; GET /models/jobs/${id} shows it`)
      if (end.state !== 'succeeded') throw new HttpError(500, 'load_failed', `cannot load model ${name}: ${end.message}`)
      return { loaded: [name], message: end.message }
    }),
    endpoint(routes.capabilities, async (call) => {
      const [{ data }, { models }] = await Promise.all([own(inferenceRoutes.models, call), own(modelRoutes.list, call)])
      const byName = new Map<string, (typeof models)[number]>(models.map((model) => [model.name, model]))
      const listed = data.flatMap(({ id, created }) => {
        const model = byName.get(id)
        return model === undefined ? [] : [capabilitiesOf(model, created)]
      })
      return { object: 'list' as const, data: listed }
    }),
  ]
}

async function monitorModel(name: ModelName, call: Call<Route>, own: CallOwn): Promise<{ state?: number }> {
  const [model, { replicas }] = await Promise.all([
    own(modelRoutes.get, call, { params: { name } }),
    own(modelRoutes.replicas, call, { params: { name } }),
  ])
  const shown = monitorOf(model, replicas)
  if (shown === null) throw new HttpError(500, 'not_loaded', `model ${name} is not loaded; POST /backend/load loads it`)
  return shown
}

/** Null: it has not ended within the time. Throws when the client leaves, or the controller stops. */
async function untilEnd(id: OperationId, call: Call<Route>, { own, clock }: LocalAiSystemDeps): Promise<OperationView | null> {
  const until = clock.monotonic() + maxWaitMs
  while (clock.monotonic() < until) {
    const operation = await own(operationRoutes.get, call, { params: { id } })
    if (operation.finished_at !== null) return operation
    await clock.sleep(lookEveryMs, call.signal)
  }
  return null
}
