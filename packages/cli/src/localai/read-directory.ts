// Reads a LocalAI data directory: models/, configuration/, backends/ beside each other, or the models directory alone. A file that
// cannot be read is a loss with its reason; it never stops the rest.
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import { errorMessage, parseJson, readGalleries, Secret } from '@muster/host'
import { readYaml } from '@muster/source'
import { usageError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'
import { type DirectoryFiles, openDirectory } from './directory-files.ts'
import { type Reading, readObject, readValue, yamlLimits } from './directory-values.ts'
import { mentionOtherFiles, type ModelsReading, readLocalFiles, readModels } from './read-models.ts'
import { isMapping, listOf, type Loss, type Mapping, namesIn, type Site, textOf } from './site.ts'

/** `modelsDirectory`: where the models are when they are not beside the rest. */
export async function readDirectory(path: string, modelsDirectory?: string): Promise<Site> {
  const losses: Loss[] = []
  const lose = (loss: Loss): void => void losses.push(loss)
  const files = await openDirectory(path)
  const isBeside = modelsDirectory === undefined && ((await files.hasFolder('models')) || (await files.hasFolder('configuration')))
  if (modelsDirectory === undefined && !(await files.hasFolder('models'))) await refuseLinkedModels(files, path)
  const reading: ModelsReading = {
    files: modelsDirectory === undefined ? files : await openDirectory(modelsDirectory),
    folder: isBeside ? 'models' : '',
    lose,
  }
  const local = await readLocalFiles(reading)
  const models = await readModels(reading)
  await mentionOtherFiles(reading, models, local.sizes)
  // A models directory alone has nothing else.
  const data = isBeside || modelsDirectory !== undefined ? { files, lose } : null
  const settings = data === null ? {} : await readObject(data, 'configuration/runtime_settings.json')
  if (data !== null) await mentionOthers(data)
  return {
    from: files.root,
    models,
    local,
    galleries: readSettingsGalleries(settings, lose),
    backends: data === null ? [] : await readBackends(data),
    rules: [],
    nodes: [],
    keys: await readKeys(data, settings),
    defaults: defaultsIn(settings),
    losses,
  }
}

/** A volume elsewhere is common, and a link to it is not followed by mistake. */
async function refuseLinkedModels(files: DirectoryFiles, path: string): Promise<void> {
  const isThere = await lstat(join(files.root, 'models')).then(
    (found) => found.isSymbolicLink(),
    () => false,
  )
  if (isThere)
    throw usageError(`${plainText(path)}/models is a link, which is not followed out of the directory`, 'name its target with --models-dir')
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
  const external = await readObject(reading, 'configuration/external_backends.json')
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

async function readKeys(reading: Reading | null, settings: Mapping): Promise<Secret[]> {
  const listed = reading === null ? null : await readValue(reading, 'configuration/api_keys.json')
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
async function mentionOthers({ files, lose }: Reading): Promise<void> {
  for (const [path, message] of elsewhere) {
    const exists = await files.locate(path).then(
      () => true,
      () => false,
    )
    if (exists) lose({ about: path, key: '', message })
  }
}

/** The rules that an operator names: a list in YAML or JSON. */
export function parseRules(text: string, from: string): Site['rules'] {
  const value = readYaml(text, from, yamlLimits)
  if (Array.isArray(value)) return schedulingRules(value, from)
  throw usageError(`${from} is not a list of rules: [{"model_name": "…", "min_replicas": 1}]`)
}

export const schedulingRules = (value: unknown, from: string): Site['rules'] =>
  listOf(value)
    .filter(isMapping)
    .map((rule) => ({ from, rule }))
