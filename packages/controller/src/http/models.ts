// /api/models: what is to be served, how it is configured, and how it is.
import { modelRoutes as routes, type ModelName, type ModelView, type ValidatedConfig } from '@muster/protocol'
import { UnreadableConfig, type ConfigFormat } from '../models/config-text.ts'
import { InvalidConfig, parseConfig } from '../models/parse-config.ts'
import { revisionOf } from '../models/revision.ts'
import type { ShowModels } from '../models/show-models.ts'
import { loadingOf } from '../models/view.ts'
import type { ModelRecord, ModelStore } from '../store/models.ts'
import { readRaw } from './body.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, notFound } from './http-error.ts'

export interface ModelEndpointDeps {
  readonly models: ModelStore
  readonly show: ShowModels
  /** There may be something to do. */
  readonly wake: (model: ModelName) => Promise<void>
}

export const noSuchModel = (name: ModelName): HttpError => notFound(`there is no model ${name}; GET /api/models lists them`)

export function modelEndpoints({ models, show, wake }: ModelEndpointDeps): Endpoint[] {
  const find = async (name: ModelName): Promise<ModelRecord> => {
    const model = await models.find(name)
    if (model === null) throw noSuchModel(name)
    return model
  }
  const view = async (name: ModelName): Promise<ModelView> => {
    const [shown] = await show([await find(name)])
    if (shown === undefined) throw noSuchModel(name)
    return shown
  }
  return [
    endpoint(routes.list, async () => ({ models: await show(await models.list()) })),
    endpoint(routes.get, async ({ params: { name } }) => await view(name)),
    endpoint(routes.put, async ({ params: { name }, headers, request }) => {
      const config = parsed(await readText(request), { name, format: formatOf(headers) })
      const put = await models.put(config, { revision: revisionOf(config), expected: expectedOf(headers) })
      if (put.outcome === 'revision_conflict') throw conflict(name, put.current)
      await wake(name)
      return new Answer(put.outcome === 'created' ? 201 : 200, await view(name))
    }),
    endpoint(routes.validate, async ({ query: { name }, headers, request }) =>
      validated(await readText(request), { name: name ?? null, format: formatOf(headers) }),
    ),
    endpoint(routes.scheduling, async ({ params: { name }, body }) => {
      if (!(await models.setScheduling(name, body))) throw noSuchModel(name)
      await wake(name)
      return await view(name)
    }),
    endpoint(routes.loadStatus, async ({ params: { name } }) => loadingOf(await find(name))),
  ]
}

const yamlTypes = new Set(['application/yaml', 'application/x-yaml', 'text/yaml', 'text/x-yaml'])

function formatOf(headers: Headers): ConfigFormat {
  const type = headers.get('content-type')?.split(';')[0]?.trim().toLowerCase() ?? ''
  if (yamlTypes.has(type)) return 'yaml'
  if (type === 'application/json') return 'json'
  throw new HttpError(
    415,
    'unsupported_media_type',
    `send a model with "Content-Type: application/json" or "application/yaml", not ${JSON.stringify(type)}`,
  )
}

async function readText(request: Request): Promise<string> {
  const raw = await readRaw(request)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(raw)
  } catch {
    throw new HttpError(400, 'invalid', 'the configuration is not UTF-8')
  }
}

function parsed(text: string, about: Parameters<typeof parseConfig>[1]): ReturnType<typeof parseConfig> {
  try {
    return parseConfig(text, about)
  } catch (error) {
    if (error instanceof InvalidConfig) throw new HttpError(400, 'invalid', error.message, { details: { ...error.problem } })
    throw error
  }
}

/** What `put` would say of it. */
function validated(text: string, about: Parameters<typeof parseConfig>[1]): ValidatedConfig {
  try {
    const config = parseConfig(text, about)
    return { valid: true, revision: revisionOf(config), config }
  } catch (error) {
    const { message } = error instanceof Error ? error : { message: '' }
    if (error instanceof UnreadableConfig) return { valid: false, problems: [{ message, ...lineOf(error) }] }
    if (!(error instanceof InvalidConfig)) throw error
    const { key, closest } = error.problem
    return { valid: false, problems: [{ message, key, ...lineOf(error.problem), ...(closest === undefined ? {} : { closest }) }] }
  }
}

const lineOf = ({ line }: { line: number | null }): { line?: number } => (line === null ? {} : { line })

/** With or without quotes; `*` is any that exists. */
function expectedOf(headers: Headers): string | null {
  const given = headers.get('if-match')?.trim()
  return given === undefined || given === '' ? null : given.replace(/^(?:W\/)?"(.*)"$/, '$1')
}

const conflict = (name: ModelName, current: string | null): HttpError =>
  new HttpError(
    409,
    'revision_conflict',
    current === null
      ? `there is no model ${name} that could be changed; leave out If-Match to create it`
      : `model ${name} has changed: its revision is ${current}; read it again and apply your change to that`,
    { details: { revision: current } },
  )
