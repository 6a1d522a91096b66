// Reads the site that an import names: a directory or a running instance, completed by the environment of LocalAI, whose variables
// beat the stored settings.
import { readFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import { errorMessage, type Secret } from '@muster/host'
import { usageError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'
import { defaultsIn, parseRules, readDirectory, readSettingsGalleries, uniqueKeys } from './read-directory.ts'
import { readInstance } from './read-instance.ts'
import type { Loss, Mapping, Site } from './site.ts'

export const siteParts = ['galleries', 'backends', 'models', 'scheduling', 'nodes', 'keys'] as const
export type SitePart = (typeof siteParts)[number]

export interface SiteOptions {
  /** A directory or a URL. */
  readonly source: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly envFile: string | undefined
  readonly modelsDirectory: string | undefined
  readonly apiKeyFile: string | undefined
  readonly schedulingFile: string | undefined
  /** Null: all. */
  readonly only: readonly SitePart[] | null
}

export async function readSite(options: SiteOptions): Promise<Site> {
  const file = options.envFile === undefined ? {} : parseEnv(await readGiven('--env-file', options.envFile))
  const env: Environment = { ...file, ...options.env }
  const keys = await readApiKeys(options.apiKeyFile, env)
  const rules = await readRules(options.schedulingFile, env)
  const { source } = options
  const site = /^https?:\/\//i.test(source) ? await readUrl(source, keys[0] ?? null) : await readDirectory(source, options.modelsDirectory)
  const all = uniqueKeys([...site.keys, ...keys].map((key) => key.reveal()))
  const completed = addEnvironment({ ...site, keys: all }, env)
  return selectParts({ ...completed, rules: [...completed.rules, ...rules] }, options.only)
}

type Environment = Readonly<Record<string, string | undefined>>

async function readUrl(text: string, key: Secret | null): Promise<Site> {
  const url = URL.parse(text)
  if (url === null) throw usageError(`${JSON.stringify(plainText(text))} is not a URL`)
  if (url.username !== '' || url.password !== '')
    throw usageError('the URL must not hold a user name or password', 'set LOCALAI_API_KEY, or use --api-key-file')
  return await readInstance({ url, key })
}

async function readApiKeys(file: string | undefined, env: Environment): Promise<Secret[]> {
  const text = file === undefined ? '' : await readGiven('--api-key-file', file)
  return uniqueKeys([...text.split(/\s+/), ...(env['LOCALAI_API_KEY'] ?? '').split(',')])
}

/** LocalAI reads rules as JSON text, and as a YAML file. JSON is YAML. */
async function readRules(file: string | undefined, env: Environment): Promise<Site['rules']> {
  const inline = env['LOCALAI_MODEL_SCHEDULING'] ?? ''
  const path = file ?? env['LOCALAI_MODEL_SCHEDULING_CONFIG'] ?? ''
  const rules = inline === '' ? [] : parseRules(inline, 'LOCALAI_MODEL_SCHEDULING')
  if (path === '') return rules
  return [...rules, ...parseRules(await readGiven(file === undefined ? 'LOCALAI_MODEL_SCHEDULING_CONFIG' : '--scheduling', path), path)]
}

async function readGiven(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw usageError(`${option}: cannot read ${plainText(path)}: ${plainText(errorMessage(error))}`)
  }
}

const namesOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')

/** Variables that name models to fetch at the start. */
const preloading = ['LOCALAI_MODELS', 'LOCALAI_PRELOAD_MODELS', 'LOCALAI_PRELOAD_MODELS_CONFIG', 'LOCALAI_MODELS_CONFIG_FILE']

function addEnvironment(site: Site, env: Environment): Site {
  const losses: Loss[] = preloading
    .filter((name) => (env[name] ?? '') !== '')
    .map((name) => ({ about: name, key: '', message: 'not read: install these models with `muster models install`, or apply their files' }))
  const given: Mapping = {
    ...(env['LOCALAI_GALLERIES'] ? { galleries: env['LOCALAI_GALLERIES'] } : {}),
    ...(env['LOCALAI_BACKEND_GALLERIES'] ? { backend_galleries: env['LOCALAI_BACKEND_GALLERIES'] } : {}),
  }
  const kinds = [...('galleries' in given ? ['model'] : []), ...('backend_galleries' in given ? ['backend'] : [])]
  const galleries = readSettingsGalleries(given, (loss) => void losses.push(loss)).filter(({ kind }) => kinds.includes(kind))
  const defaults = defaultsIn({
    threads: Number(env['LOCALAI_THREADS'] ?? 0),
    context_size: Number(env['LOCALAI_CONTEXT_SIZE'] ?? 0),
    f16: env['LOCALAI_F16'] === 'true',
  })
  const loaded = namesOf(env['LOCALAI_LOAD_TO_MEMORY']).map((name) => ({
    from: 'LOCALAI_LOAD_TO_MEMORY',
    rule: { model_name: name, min_replicas: 1 },
  }))
  return {
    ...site,
    galleries: [...site.galleries.filter(({ kind }) => !kinds.includes(kind)), ...galleries],
    backends: [...new Set([...site.backends, ...namesOf(env['LOCALAI_EXTERNAL_BACKENDS'])])],
    // A later rule of the same model wins.
    rules: [...loaded, ...site.rules],
    defaults: { ...site.defaults, ...defaults },
    losses: [...site.losses, ...losses],
  }
}

/** A part that is not selected is empty. */
function selectParts(site: Site, only: readonly SitePart[] | null): Site {
  const has = (part: SitePart): boolean => only === null || only.includes(part)
  return {
    ...site,
    galleries: has('galleries') ? site.galleries : [],
    backends: has('backends') ? site.backends : [],
    models: has('models') ? site.models : [],
    rules: has('scheduling') ? site.rules : [],
    nodes: has('nodes') ? site.nodes : [],
    keys: has('keys') ? site.keys : [],
  }
}
