// Plans one model of a LocalAI site. The steps, in this order:
//   1. Templates that are named are replaced by the text of their file, and values of the server fill what the model leaves out.
//   2. Repositories of Hugging Face become files by the listing that LocalAI kept of them.
//   3. The keys become Muster's (convertModel). A refused key refuses the model.
//   4. The files: those of the installation's record with their source, then local files that the configuration names.
//   5. The rule of scheduling of this model.
import { type ModelConfig, ModelConfig as ModelConfigSchema } from '@muster/protocol'
import {
  isMapping,
  type LocalFiles,
  type Loss,
  type Mapping,
  type RepositoryListing,
  type SiteModel,
  type SiteRule,
  textOf,
} from './site.ts'
import { toScheduling } from './scheduling.pure.ts'

/** The conversions of @muster/source. */
export interface Convert {
  convertModel(source: Mapping): Readonly<{ config: Mapping; keys: readonly ConvertedKey[] }>
  convertFileUri(text: string): Readonly<{ uri: string } | { problem: string }>
  archiveKind(filename: string): string | null
  findArtifacts(config: Mapping, filenames: readonly string[]): Readonly<{ artifacts: readonly Artifact[] } | { problem: string }>
  applySnapshots(config: Mapping, snapshots: readonly Snapshot[]): Mapping
  snapshotFiles(snapshot: Snapshot): readonly ConfigFileText[]
}
type ConfigFileText = Readonly<{ uri: string; filename: string; sha256?: string | undefined }>
interface Artifact {
  readonly name: string
  readonly role: 'model' | 'companion'
  readonly repository: string
  readonly revision: string
  readonly allow: readonly string[]
  readonly ignore: readonly string[]
  readonly folder: string
}
type Snapshot = Readonly<{ artifact: Artifact; listing: RepositoryListing }>
type ConvertedKey = Readonly<{ key: string; outcome: string; message: string }>

export interface ModelPlan {
  readonly name: string
  readonly from: string
  /** Not yet checked: its local files have no source yet. */
  readonly config: Mapping
  /** Names of local files that the fleet has to get from this machine. */
  readonly localFiles: readonly string[]
  /** Sentences that forbid the import; empty: it can be imported. */
  readonly problems: readonly string[]
  readonly losses: readonly Loss[]
}

export interface PlanInput {
  readonly model: SiteModel
  readonly local: Pick<LocalFiles, 'sizes' | 'folders' | 'listings' | 'templates'>
  readonly defaults: Mapping
  readonly rule: SiteRule | undefined
}

/** As many as a model may have. */
const maxFiles = 1024

export function planModel({ model, local, defaults, rule }: PlanInput, convert: Convert): ModelPlan {
  const described = withTemplates({ ...defaults, ...model.source }, local.templates)
  const recorded = recordedFiles(model, convert, local)
  const { source, files: fetched } = withRepositories(described, { recorded: model.files, local, convert })
  const { config, keys } = convert.convertModel(source)
  const name = textOf(config['name']) || textOf(model.source['name'])
  const lose = (key: string, message: string): Loss => ({ about: name, key, message })
  const own = (Array.isArray(config['files']) ? config['files'] : []).filter(isMapping)
  const files = firstOfEachName([...recorded.files, ...fetched, ...own])
  const named = new Set(files.map(({ filename }) => textOf(filename)))
  // LocalAI unpacked an archive beside it: its content is no file of its own.
  const found = recorded.hasArchive ? [] : findLocalFiles(source, local)
  const localFiles = [...new Set([...recorded.local, ...found])].filter((file) => !named.has(file))
  const scheduling = rule === undefined ? null : toScheduling(rule.rule)
  return {
    name,
    from: model.from,
    config: {
      ...config,
      name,
      ...(files.length === 0 ? {} : { files }),
      ...(scheduling === null
        ? {}
        : { scheduling: { ...(isMapping(config['scheduling']) ? config['scheduling'] : {}), ...scheduling.scheduling } }),
    },
    localFiles: localFiles.slice(0, maxFiles),
    problems: [...keys.filter(({ outcome }) => outcome === 'refused').map(sentenceOf), ...recorded.problems],
    losses: [
      ...keys.filter(({ outcome }) => outcome === 'no_effect').map(({ key, message }) => lose(key, message)),
      ...(scheduling?.losses ?? []).map(({ key, message }) => lose(`scheduling.${key}`, message)),
      ...(recorded.hasArchive ? [] : missingFile(source, new Set([...named, ...localFiles]))).map((message) =>
        lose('parameters.model', message),
      ),
    ],
  }
}

const sentenceOf = ({ key, message }: ConvertedKey): string => `${key}: ${message.replace(/\.$/, '')}`

const firstOfEachName = (files: readonly Mapping[]): Mapping[] =>
  files.filter(({ filename }, at) => files.findIndex((other) => other['filename'] === filename) === at)

/** Without a listing of every repository the configuration stays, and the conversion says what to do. */
function withRepositories(
  source: Mapping,
  { recorded, local, convert }: { recorded: SiteModel['files']; local: PlanInput['local']; convert: Convert },
): { source: Mapping; files: readonly Mapping[] } {
  const found = convert.findArtifacts(source, [...recorded.map(({ filename }) => filename), ...local.sizes.keys()])
  const artifacts = 'artifacts' in found ? found.artifacts : []
  const snapshots = artifacts.flatMap((artifact) => {
    const listing = local.listings.get(artifact.repository)
    return listing === undefined ? [] : [{ artifact, listing }]
  })
  if (snapshots.length === 0 || snapshots.length < artifacts.length) return { source, files: [] }
  return { source: convert.applySnapshots(source, snapshots), files: snapshots.flatMap((each) => convert.snapshotFiles(each)) }
}

const templateKeys = ['chat', 'chat_message', 'function', 'completion', 'edit', 'multimodal']

/** A template of one word names a file NAME.tmpl; FILE.tmpl beside the model's file serves when no template is set. */
function withTemplates(source: Mapping, templates: ReadonlyMap<string, string>): Mapping {
  const given = isMapping(source['template']) ? source['template'] : {}
  const parameters = isMapping(source['parameters']) ? source['parameters'] : {}
  const beside = Object.keys(given).length === 0 ? templates.get(textOf(parameters['model'])) : undefined
  if (beside !== undefined) return { ...source, template: { chat: beside, completion: beside } }
  const replaced = Object.entries(given).map(([key, value]) => {
    const text = templateKeys.includes(key) && typeof value === 'string' && /^[^\s{}]+$/.test(value) ? templates.get(value) : undefined
    return [key, text ?? value] as const
  })
  return replaced.length === 0 ? source : { ...source, template: Object.fromEntries(replaced) }
}

/** The files of the installation's record; those whose source cannot be used come from the directory, if they are there. */
function recordedFiles({ files }: SiteModel, { convertFileUri: convertUri, archiveKind }: Convert, { sizes }: Pick<LocalFiles, 'sizes'>) {
  const found: Mapping[] = []
  const local: string[] = []
  const problems: string[] = []
  for (const { filename, uri, sha256 } of files) {
    const converted = uri === '' ? { problem: `${filename} has no source` } : convertUri(uri)
    // A file of LocalAI's machine is no source for workers.
    const isUsable = 'uri' in converted && !converted.uri.startsWith('file:')
    const isArchive = archiveKind(filename) === 'archive'
    const hash = /^[0-9a-f]{64}$/.test(sha256) ? { sha256 } : {}
    if (isUsable) found.push({ uri: converted.uri, filename, ...hash, ...(isArchive ? { unpack: true } : {}) })
    else if (sizes.has(filename)) local.push(filename)
    else problems.push('problem' in converted ? converted.problem : `${filename} is not in the directory`)
  }
  return { files: found, local, problems, hasArchive: files.some(({ filename }) => archiveKind(filename) === 'archive') }
}

/** Every text of a configuration that names a file or a folder of the models directory, also as the value of an option. */
function findLocalFiles(source: Mapping, { sizes, folders }: PlanInput['local']): string[] {
  const found = new Set<string>()
  const add = (text: string): void => {
    if (sizes.has(text)) found.add(text)
    else if (folders.has(text)) for (const name of sizes.keys()) if (name.startsWith(`${text}/`)) found.add(name)
  }
  const visit = (value: unknown, depth: number): void => {
    if (typeof value === 'string') for (const part of [value, /^[\w.-]+[:=](.*)$/s.exec(value)?.[1] ?? '']) add(part.replace(/\/+$/, ''))
    else if (depth < 16 && typeof value === 'object' && value !== null) for (const each of Object.values(value)) visit(each, depth + 1)
  }
  // Names and texts for people name no files.
  const { name: _name, description: _description, usage: _usage, template: _template, backend: _backend, ...rest } = source
  visit(rest, 0)
  return [...found].filter((name) => !/\.(?:ya?ml|tmpl)$/.test(name))
}

/** The file of the model should be known by now, unless the backend knows its name or downloads it. */
function missingFile({ parameters }: Mapping, known: ReadonlySet<string>): string[] {
  const model = isMapping(parameters) ? textOf(parameters['model']) : ''
  const isFile = /\.(?:gguf|bin|onnx|safetensors|ggml|pt)$/i.test(model) && !model.includes('://')
  return isFile && !known.has(model) ? [`${model} has no source and is not in the directory; upload it with \`muster models upload\``] : []
}

export type CheckedConfig = Readonly<{ config: ModelConfig } | { problem: string }>

/** As a controller would store it, for a comparison with the stored one. */
export function checkConfig(config: Mapping): CheckedConfig {
  const parsed = ModelConfigSchema.safeParse(JSON.parse(JSON.stringify(config)))
  if (parsed.success) return { config: parsed.data }
  const [issue] = parsed.error.issues
  return { problem: `${issue?.path.map(String).join('.') ?? ''}: ${issue?.message ?? 'not valid'}`.replace(/^: /, '') }
}
