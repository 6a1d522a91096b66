// /api/models: configurations, scheduling, state and uploads of models. Loads, unloads, deletions and installs:
// model-operations.ts.
import { type ModelDetail, type ModelName, modelRoutes as routes, type ModelView, type ValidatedConfig } from '@muster/protocol'
import {
  type ConfigFormat,
  type ConfigSource,
  InvalidConfig,
  parseConfig,
  type ParsedConfig,
  revisionOf,
  UnreadableConfig,
} from '../models/config.ts'
import type { Models } from '../models/create-models.ts'
import { createModelSubmissions } from '../models/submit.ts'
import { createNodeSubmissions } from '../models/submit-on-nodes.ts'
import type { Placer } from '../placement/placer.ts'
import type { ReceiveUpload } from '../models/model-files.ts'
import { loadingOf, type ShowModels } from '../models/view.ts'
import type { LoadInfo, LoadInfoStore, ModelRecord, ModelStore } from '../store/models.ts'
import type { Store } from '../store/store.ts'
import { readRaw } from './body.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'
import { HttpError, modelNotFound, toHttpError } from './http-error.ts'
import { modelGalleryEndpoints, modelOperationEndpoints } from './model-operations.ts'

export interface ModelDeps {
  readonly store: Store
  readonly models: Models
  /** Refreshes the routing table for this model before the change feed does. */
  readonly refreshRoutes: (model: ModelName) => Promise<void>
  readonly place: Placer
}

export function modelEndpoints({ store, models, refreshRoutes, place }: ModelDeps): Endpoint[] {
  const { show, catalogue, bases, planInstall, stopping, receiveUpload } = models
  // Refreshed before the response, so that the caller can use the model on this controller at once. A failed refresh is
  // repaired by the change feed.
  const wake = async (model: ModelName): Promise<void> => {
    models.wake()
    await refreshRoutes(model).catch(() => undefined)
  }
  const { models: found, nodes, modelSubmissions } = store
  const operations = {
    submissions: createModelSubmissions({ models: found, nodes, planInstall, store: modelSubmissions, wake }),
    onNodes: createNodeSubmissions({ models: found, nodes, holders: store.fileHolders, place, store: store.nodeModels, wake }),
    keys: store.submissions,
  }
  return [
    // Before :name, which would match a model called gallery.
    ...modelGalleryEndpoints({ ...operations, catalogue, bases, planInstall, stopping, list: store.models, nodes }),
    ...configEndpoints({ models: store.models, loadInfo: store.loadInfo, show, wake }),
    ...modelOperationEndpoints(operations),
    ...uploadEndpoints({ models: store.models, receive: receiveUpload, wake }),
  ]
}

interface ModelConfigDeps {
  readonly models: ModelStore
  readonly loadInfo: Pick<LoadInfoStore, 'find'>
  readonly show: ShowModels
  readonly wake: (model: ModelName) => Promise<void>
}

const lastLoaded = (info: LoadInfo | null): ModelDetail['last_loaded'] =>
  info === null ? null : { at: info.updatedAt, backend: info.backend, revision: info.revision, options: info.options }

function configEndpoints({ models, loadInfo, show, wake }: ModelConfigDeps): Endpoint[] {
  const find = async (name: ModelName): Promise<ModelRecord> => {
    const model = await models.find(name)
    if (model === null) throw modelNotFound(name)
    return model
  }
  const view = async (name: ModelName): Promise<ModelView> => {
    const [found] = await show([await find(name)])
    if (found === undefined) throw modelNotFound(name)
    return found
  }
  return [
    endpoint(routes.list, async () => ({ models: await show(await models.list()) })),
    endpoint(routes.get, async ({ params: { name } }) => ({ ...(await view(name)), last_loaded: lastLoaded(await loadInfo.find(name)) })),
    endpoint(routes.put, async ({ params: { name }, query: { from }, headers, request }) => {
      const { config, keys } = parseOrRefuse(await readText(request), { name, format: formatOf(headers), isLocalAi: from === 'localai' })
      const put = await models.put(config, { revision: revisionOf(config), expected: expectedOf(headers) })
      if (put.outcome === 'revision_conflict') throw conflict(name, put.current)
      await wake(name)
      const answer = { ...(await view(name)), ...(keys === null ? {} : { keys: [...keys] }) }
      return new Answer(put.outcome === 'created' ? 201 : 200, answer)
    }),
    endpoint(routes.validate, async ({ query: { name, from }, headers, request }) =>
      validate(await readText(request), { name: name ?? null, format: formatOf(headers), isLocalAi: from === 'localai' }),
    ),
    endpoint(routes.scheduling, async ({ params: { name }, body }) => {
      if (!(await models.setScheduling(name, body))) throw modelNotFound(name)
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

function parseOrRefuse(text: string, source: ConfigSource): ParsedConfig {
  try {
    return parseConfig(text, source)
  } catch (error) {
    if (error instanceof InvalidConfig) throw new HttpError(400, 'invalid', error.message, { details: { ...error.problem } })
    throw error
  }
}

/** The result that `put` would have. */
function validate(text: string, source: ConfigSource): ValidatedConfig {
  try {
    const { config, keys } = parseConfig(text, source)
    return { valid: true, revision: revisionOf(config), config, ...(keys === null ? {} : { keys: [...keys] }) }
  } catch (error) {
    const { message } = error instanceof Error ? error : { message: '' }
    if (error instanceof UnreadableConfig) return { valid: false, problems: [{ message, ...lineOf(error) }] }
    if (!(error instanceof InvalidConfig)) throw error
    const { key, closest } = error.problem
    const problem = { message, key, ...lineOf(error.problem), ...(closest === undefined ? {} : { closest }) }
    return { valid: false, problems: [problem], ...(error.keys === null ? {} : { keys: [...error.keys] }) }
  }
}

const lineOf = ({ line }: { line: number | null }): { line?: number } => (line === null ? {} : { line })

/** With or without quotes; `*` matches any revision that exists. */
function expectedOf(headers: Headers): string | null {
  const header = headers.get('if-match')?.trim()
  return header === undefined || header === '' ? null : header.replace(/^(?:W\/)?"(.*)"$/, '$1')
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

interface ModelUploadDeps {
  readonly models: Pick<ModelStore, 'find'>
  readonly receive: ReceiveUpload
  readonly wake: (model: ModelName) => Promise<void>
}

/** Beyond it numbers are no longer exact. */
const maxSizeBytes = 2 ** 50

/** Uploads of any size: the bytes are streamed to workers. */
function uploadEndpoints({ models, receive, wake }: ModelUploadDeps): Endpoint[] {
  return [
    endpoint(routes.upload, async ({ params: { name, filename }, headers, request, signal }) => {
      if ((await models.find(name)) === null) throw withConnectionClose(modelNotFound(name))
      const sizeBytes = declaredSize(headers)
      const body = request.body ?? []
      try {
        const { digest, sizeBytes: size, kept } = await receive({ model: name, filename, sizeBytes, body: bytesOf(body), signal })
        await wake(name)
        return { filename, digest, size, nodes: kept.map(({ id }) => id) }
      } catch (error) {
        if (error instanceof InvalidConfig)
          throw withConnectionClose(new HttpError(400, 'invalid', error.message, { details: { ...error.problem } }))
        throw withConnectionClose(toHttpError(error))
      }
    }),
  ]
}

async function* bytesOf(body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) yield chunk
}

function declaredSize(headers: Headers): number | null {
  const header = headers.get('content-length')
  if (header === null) return null
  const size = Number(header)
  if (!Number.isSafeInteger(size) || size > maxSizeBytes)
    throw withConnectionClose(new HttpError(413, 'too_large', `${header} bytes are too many for one file`))
  return size
}

/** Closes the connection, because the rest of the body is not read. A full disk has a status of its own. */
function withConnectionClose(error: HttpError): HttpError {
  const status = error.code === 'disk_full' ? 507 : error.status
  return new HttpError(status, error.code, error.message, {
    ...(error.details === undefined ? {} : { details: error.details }),
    headers: { ...error.headers, connection: 'close' },
    cause: error.cause,
  })
}
