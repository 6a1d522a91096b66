// Reads a LocalAI data directory: models/, configuration/, backends/ beside each other, or the models directory alone. A file that
// cannot be read is a loss with its reason; it never stops the rest.
import { basename } from 'node:path'
import { errorMessage, parseJson, readGalleries, Secret } from '@muster/host'
import { readYaml, type YamlLimits } from '@muster/source'
import { usageError } from '../cli-error.ts'
import { type DirectoryFiles, maxTextBytes, openDirectory } from './directory-files.ts'
import {
  foldersOf,
  isMapping,
  listOf,
  type LocalFiles,
  type Loss,
  type Mapping,
  namesIn,
  readRecordedFiles,
  type RepositoryListing,
  type Site,
  type SiteModel,
  textOf,
} from './site.ts'

const limits: YamlLimits = { maxBytes: maxTextBytes, maxValues: 200_000, maxDepth: 32, scalars: 'typed' }
const maxModels = 10_000

interface Reading {
  readonly files: DirectoryFiles
  /** The folder of the models, from the root; empty when the directory is that folder. */
  readonly folder: string
  readonly lose: (loss: Loss) => void
}

export async function readDirectory(path: string): Promise<Site> {
  const files = await openDirectory(path)
  const losses: Loss[] = []
  const folder = (await files.list('models')).length > 0 ? 'models' : ''
  const reading: Reading = { files, folder, lose: (loss) => void losses.push(loss) }
  const settings = folder === '' ? {} : await readJson(reading, 'configuration/runtime_settings.json')
  const local = await readLocalFiles(reading)
  const models = await readModels(reading)
  await mentionOthers(reading, models, local)
  return {
    from: files.root,
    models,
    local,
    galleries: readSettingsGalleries(settings, reading.lose),
    backends: folder === '' ? [] : await readBackends(reading),
    rules: [],
    nodes: [],
    keys: await readKeys(reading, settings),
    defaults: defaultsIn(settings),
    losses,
  }
}

/** In a path of the directory, for reports. */
const below = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** Null when the file is missing or cannot be read, which is a loss. */
async function readValue({ files, lose }: Pick<Reading, 'files' | 'lose'>, path: string): Promise<unknown> {
  try {
    const text = await files.readText(path)
    if (text === null) return null
    return path.endsWith('.json') ? parseJson(text) : readYaml(text, path, limits)
  } catch (error) {
    lose({ about: path, key: '', message: `it cannot be read: ${errorMessage(error)}` })
    return null
  }
}

async function readJson(reading: Reading, path: string): Promise<Mapping> {
  const value = await readValue(reading, path)
  if (isMapping(value)) return value
  if (value !== null) reading.lose({ about: path, key: '', message: 'it is not a JSON object' })
  return {}
}

/** Hidden files, unfinished downloads and the caches of Hugging Face libraries are no files of models. */
const isSkipped = (name: string): boolean => name.startsWith('.') || name.endsWith('.partial') || name.startsWith('models--')

async function readLocalFiles({ files, folder, lose }: Reading): Promise<LocalFiles> {
  const { sizes, refused } = await files.walk(folder, isSkipped)
  for (const path of refused)
    lose({ about: below(folder, path), key: '', message: 'it is a link out of the directory, or broken, and not followed' })
  const templates = new Map<string, string>()
  for (const name of [...sizes.keys()].filter((each) => each.endsWith('.tmpl'))) {
    try {
      templates.set(name.slice(0, -'.tmpl'.length), (await files.readText(below(folder, name))) ?? '')
    } catch (error) {
      lose({ about: below(folder, name), key: '', message: `it cannot be read: ${errorMessage(error)}` })
    }
  }
  const listings = await readListings({ files, folder, lose })
  return { sizes, folders: foldersOf(sizes.keys()), listings, templates, locate: (filename) => files.locate(below(folder, filename)) }
}

const maxListings = 1000

/** `manifest.json` of each repository that LocalAI fetched as a whole. */
async function readListings(reading: Reading): Promise<Map<string, RepositoryListing>> {
  const store = below(reading.folder, '.artifacts/huggingface')
  const listings = new Map<string, RepositoryListing>()
  for (const key of (await reading.files.list(store)).slice(0, maxListings)) {
    const manifest = await readValue(reading, `${store}/${key}/manifest.json`)
    const { artifact, files } = isMapping(manifest) ? manifest : {}
    const { source, resolved } = isMapping(artifact) ? artifact : {}
    const repository = textOf(isMapping(source) ? source['repo'] : null)
    const commit = textOf(isMapping(resolved) ? resolved['revision'] : null)
    if (repository !== '' && /^[0-9a-f]{7,64}$/.test(commit)) listings.set(repository, { commit, files: listOf(files).flatMap(listedFile) })
  }
  return listings
}

function listedFile(value: unknown): RepositoryListing['files'][number][] {
  const { path, size, sha256 } = isMapping(value) ? value : {}
  if (typeof path !== 'string' || path === '') return []
  return [{ path, size: Number(size) || 0, sha256: /^[0-9a-f]{64}$/.test(textOf(sha256)) ? textOf(sha256) : null }]
}

const isModelFile = (name: string): boolean => /\.ya?ml$/.test(name) && !name.startsWith('.')

async function readModels(reading: Reading): Promise<SiteModel[]> {
  const { files, folder, lose } = reading
  const byName = new Map<string, SiteModel>()
  for (const name of (await files.list(folder)).filter(isModelFile)) {
    const from = below(folder, name)
    const value = await readValue(reading, from)
    const record = await readValue(reading, below(folder, `._gallery_${name.replace(/\.ya?ml$/, '')}.yaml`))
    const installed = isMapping(record) ? readRecordedFiles(record['files']) : []
    for (const source of modelsIn(value, from, lose)) {
      const model = textOf(source['name'])
      const before = byName.get(model)
      // LocalAI uses the last file of a name.
      if (before !== undefined)
        lose({ about: before.from, key: '', message: `${from} has the same name ${model}, and LocalAI uses the last` })
      if (byName.size < maxModels) byName.set(model, { from, source, files: installed })
    }
  }
  return [...byName.values()]
}

/** A file has one model, or a list of them. */
function modelsIn(value: unknown, from: string, lose: Reading['lose']): Mapping[] {
  if (value === null) return []
  const all = Array.isArray(value) ? value : [value]
  return all.flatMap((each: unknown): Mapping[] => {
    if (isMapping(each) && textOf(each['name']) !== '') return [each]
    lose({ about: from, key: '', message: isMapping(each) ? 'it has no name, so LocalAI does not serve it either' : 'it is not a model' })
    return []
  })
}

/** LocalAI's own galleries count when the settings name none. */
const projectGalleries = {
  model: [{ name: 'localai', url: 'github:mudler/LocalAI/gallery/index.yaml@master' }],
  backend: [{ name: 'localai', url: 'github:mudler/LocalAI/backend/index.yaml@master' }],
} as const

export function readSettingsGalleries(settings: Mapping, lose: Reading['lose']): Site['galleries'] {
  return (['model', 'backend'] as const).flatMap((kind) => {
    const key = kind === 'model' ? 'galleries' : 'backend_galleries'
    const given = settings[key] ?? projectGalleries[kind]
    try {
      return readGalleries(typeof given === 'string' ? parseJson(given) : given, kind).map((gallery) => ({ ...gallery, kind }))
    } catch (error) {
      lose({ about: 'runtime settings', key, message: errorMessage(error) })
      return []
    }
  })
}

async function readBackends(reading: Reading): Promise<string[]> {
  const names = new Set<string>()
  for (const name of await reading.files.list('backends')) {
    if (name.startsWith('.') || /\.install-(?:tmp|backup)$/.test(name)) continue
    const metadata = await readValue(reading, `backends/${name}/metadata.json`)
    const hasScript = (await reading.files.list(`backends/${name}`)).includes('run.sh')
    if (isMapping(metadata) || hasScript) names.add(metaOf(metadata) ?? name)
  }
  const external = await readJson(reading, 'configuration/external_backends.json')
  for (const name of Object.keys(external))
    reading.lose({
      about: 'configuration/external_backends.json',
      key: name,
      message: 'external backends by address are not supported: pack the backend with `muster pack`',
    })
  return [...names]
}

/** A build belongs to the backend that models name: its alias. */
const metaOf = (metadata: unknown): string | null => {
  const alias = isMapping(metadata) ? textOf(metadata['alias']) : ''
  return alias === '' ? null : alias
}

async function readKeys(reading: Reading, settings: Mapping): Promise<Secret[]> {
  const listed = reading.folder === '' ? null : await readValue(reading, 'configuration/api_keys.json')
  return uniqueKeys([...namesIn(listed), ...namesIn(settings['api_keys'])])
}

/** A key is sent in a header, so it has no blanks. */
export const uniqueKeys = (keys: readonly string[]): Secret[] =>
  [...new Set(keys.map((key) => key.trim()))].filter((key) => /^[\x21-\x7e]{1,4096}$/.test(key)).map((key) => new Secret(key))

/** Zero and false leave the choice to the backend. */
export const defaultsIn = (settings: Mapping): Mapping =>
  Object.fromEntries(
    ['threads', 'context_size', 'f16']
      .map((key) => [key, settings[key]] as const)
      .filter(([, value]) => value === true || Number(value) > 0),
  )

const elsewhere: readonly (readonly [path: string, message: string])[] = [
  [
    'data/database.db',
    'users and their keys stay there; import scheduling and labels from the running instance (muster import localai URL)',
  ],
  ['data/voice-profiles', 'voice profiles are not imported: name the file of a voice in the model'],
  ['data/collections', 'collections of agents are not part of Muster'],
  ['agent_tasks.json', 'agents are not part of Muster'],
]

/** Parts of the directory that stay behind. */
async function mentionOthers({ files, folder, lose }: Reading, models: readonly SiteModel[], { sizes }: LocalFiles): Promise<void> {
  for (const [path, message] of folder === '' ? [] : elsewhere) {
    const exists = await files.locate(path).then(
      () => true,
      () => false,
    )
    if (exists) lose({ about: path, key: '', message })
  }
  for (const name of await files.list(folder))
    if (name.startsWith('models--'))
      lose({ about: below(folder, name), key: '', message: 'a cache of a Hugging Face library; not imported' })
  const text = JSON.stringify(models.map(({ source, files: recorded }) => [source, recorded]))
  const loose = [...sizes.keys()].filter((name) => /\.(?:gguf|bin|safetensors|onnx|ggml)$/i.test(name) && !text.includes(basename(name)))
  for (const name of loose.slice(0, 1000))
    lose({ about: below(folder, name), key: '', message: 'no model names this file; write a configuration for it, then import again' })
}

/** The rules that an operator names: a list in YAML or JSON. */
export function parseRules(text: string, from: string): Site['rules'] {
  const value = readYaml(text, from, limits)
  if (Array.isArray(value)) return schedulingRules(value, from)
  throw usageError(`${from} is not a list of rules: [{"model_name": "…", "min_replicas": 1}]`)
}

export const schedulingRules = (value: unknown, from: string): Site['rules'] =>
  listOf(value)
    .filter(isMapping)
    .map((rule) => ({ from, rule }))
