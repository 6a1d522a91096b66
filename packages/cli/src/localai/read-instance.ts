// Reads a running LocalAI by its API. Answers are foreign: bounded in size, never redirected, parsed loosely. A route that this
// instance does not have gives nothing; only the list of models is needed.
import { errorMessage, parseJson, type Secret } from '@muster/host'
import { CliError } from '../cli-error.ts'
import { openRequest } from '../client/api-client.ts'
import { plainText } from '../output/text.ts'
import { defaultsIn, readSettingsGalleries, schedulingRules, uniqueKeys } from './read-directory.ts'
import {
  isMapping,
  listOf,
  type Loss,
  type Mapping,
  namesIn,
  noLocalFiles,
  readRecordedFiles,
  type RecordedFile,
  type Site,
  type SiteModel,
  type SiteNode,
  textOf,
} from './site.ts'

const timeoutMs = 60_000
/** The list of a whole gallery has several megabytes. */
const maxAnswerBytes = 64 * 2 ** 20
const maxModels = 10_000

export interface Instance {
  readonly url: URL
  readonly key: Secret | null
}

type Fetched = Readonly<{ status: number; json: unknown }>
type FetchJson = (path: string) => Promise<Fetched>

export async function readInstance(instance: Instance): Promise<Site> {
  const fetchJson: FetchJson = (path) => fetchAnswer(instance, path)
  const losses: Loss[] = []
  const lose = (loss: Loss): void => void losses.push(loss)
  const optional = (path: string): Promise<unknown> => readOptional(fetchJson, path, lose)
  const names = await readNames(fetchJson, instance)
  const files = filesByName(await optional('/models/available'))
  const settings = settingsIn(await optional('/api/settings'))
  const galleries = { galleries: await optional('/models/galleries'), backend_galleries: await optional('/backends/galleries') }
  return {
    from: instance.url.origin,
    models: await readModels(names, { fetchJson, files, lose }),
    local: noLocalFiles,
    galleries: readSettingsGalleries(withoutNull(galleries), lose),
    backends: backendsIn(await optional('/backends')),
    rules: schedulingRules(rowsOf(await optional('/api/nodes/scheduling')), 'GET /api/nodes/scheduling'),
    nodes: nodesIn(rowsOf(await optional('/api/nodes'))),
    // A masked key is no key.
    keys: uniqueKeys(namesIn(settings['api_keys']).filter((key) => !key.includes('*'))),
    defaults: defaultsIn(settings),
    losses,
  }
}

async function fetchAnswer({ url, key }: Instance, path: string): Promise<Fetched> {
  const response = await openRequest({
    method: 'GET',
    // Behind a proxy, LocalAI may be below a path.
    url: new URL(`${url.pathname.replace(/\/+$/, '')}${path}`, url),
    headers: { accept: 'application/json', ...(key === null ? {} : { authorization: `Bearer ${key.reveal()}` }) },
    signal: AbortSignal.timeout(timeoutMs),
  })
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response) {
    const bytes = Buffer.from(chunk)
    size += bytes.length
    if (size > maxAnswerBytes) throw new Error(`its answer has more than ${maxAnswerBytes} bytes`)
    chunks.push(bytes)
  }
  return { status: response.statusCode ?? 0, json: parseJson(Buffer.concat(chunks).toString('utf8')) }
}

async function readNames(fetchJson: FetchJson, { url, key }: Instance): Promise<string[]> {
  const answer = await fetchJson('/v1/models').catch((error: unknown) => {
    throw new CliError(`cannot reach LocalAI at ${url.origin}: ${plainText(errorMessage(error))}`, { cause: error })
  })
  if (answer.status === 401 || answer.status === 403)
    throw new CliError(`LocalAI at ${url.origin} refuses ${key === null ? 'requests without a key' : 'this key'}`, {
      hint: 'set LOCALAI_API_KEY, or name a file that holds the key with --api-key-file',
    })
  if (answer.status !== 200 || !isMapping(answer.json) || !Array.isArray(answer.json['data']))
    throw new CliError(`${url.origin} does not answer GET /v1/models as LocalAI does (HTTP ${answer.status})`, {
      hint: 'name the address of LocalAI, or its data directory',
    })
  const ids = answer.json['data'].filter(isMapping).map(({ id }) => textOf(id))
  return [...new Set(ids.filter((id) => id !== ''))].slice(0, maxModels)
}

/** Null when the instance has no such route, or does not answer it. */
async function readOptional(fetchJson: FetchJson, path: string, lose: (loss: Loss) => void): Promise<unknown> {
  try {
    const { status, json } = await fetchJson(path)
    if (status === 200) return json
    if (status !== 404) lose({ about: `GET ${path}`, key: '', message: `not read: the answer was HTTP ${status}` })
  } catch (error) {
    lose({ about: `GET ${path}`, key: '', message: `not read: ${errorMessage(error)}` })
  }
  return null
}

interface ModelReading {
  readonly fetchJson: FetchJson
  readonly files: ReadonlyMap<string, readonly RecordedFile[]>
  readonly lose: (loss: Loss) => void
}

async function readModels(names: readonly string[], { fetchJson, files, lose }: ModelReading): Promise<SiteModel[]> {
  const models: SiteModel[] = []
  for (const name of names) {
    const path = `/api/models/config-json/${encodeURIComponent(name)}`
    const config = await readOptional(fetchJson, path, lose)
    if (isMapping(config)) models.push({ from: `GET ${path}`, source: { name, ...dropEmpty(config) }, files: files.get(name) ?? [] })
    else lose({ about: name, key: '', message: 'it has no configuration; LocalAI serves the plain file of this name' })
  }
  return models
}

/** The API fills in every key; LocalAI treats an empty one as absent. */
function dropEmpty(value: Mapping, depth = 0): Mapping {
  const isEmpty = (each: unknown): boolean =>
    each === null || each === undefined || each === '' || (typeof each === 'object' && Object.keys(each).length === 0)
  const entries = Object.entries(value).map(
    ([key, each]) => [key, isMapping(each) && depth < 16 ? dropEmpty(each, depth + 1) : each] as const,
  )
  return Object.fromEntries(entries.filter(([, each]) => !isEmpty(each)))
}

/** The sources of the files of installed models, by the name of their gallery entry. */
function filesByName(available: unknown): Map<string, readonly RecordedFile[]> {
  const installed = rowsOf(available)
    .filter(isMapping)
    .filter(({ installed: isInstalled }) => isInstalled === true)
  return new Map(installed.map(({ name, files }) => [textOf(name), readRecordedFiles(files)]))
}

const settingsIn = (value: unknown): Mapping => (isMapping(value) ? (isMapping(value['settings']) ? value['settings'] : value) : {})

const withoutNull = (value: Mapping): Mapping => Object.fromEntries(Object.entries(value).filter(([, each]) => each !== null))

function backendsIn(value: unknown): string[] {
  const rows = rowsOf(value).filter(isMapping)
  const names = rows.map(({ Name, Metadata }) => (isMapping(Metadata) ? textOf(Metadata['alias']) : '') || textOf(Name))
  return [...new Set(names.filter((name) => name !== ''))]
}

function nodesIn(rows: readonly unknown[]): SiteNode[] {
  return rows
    .filter(isMapping)
    .map(({ name, labels, vram_budget: budget }) => ({
      name: textOf(name),
      labels: isMapping(labels)
        ? Object.fromEntries(Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value] as const] : [])))
        : {},
      vramBudget: textOf(budget) || null,
    }))
    .filter(({ name }) => name !== '')
}

/** A bare list, or the list inside of an object. */
const rowsOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? value : isMapping(value) ? listOf(Object.values(value).find((each) => Array.isArray(each))) : []
