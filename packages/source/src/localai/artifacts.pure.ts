// Snapshots of Hugging Face repositories: which ones a LocalAI configuration names, and the files that a listing of them gives.
// LocalAI fetches a whole repository before the first load; here its files become files of the model, each with its hash.
import type { ConfigFile } from '@muster/protocol'
import { isMapping } from './merge-overrides.pure.ts'

export interface Artifact {
  readonly name: string
  /** The model itself, or a further repository that an option names. */
  readonly role: 'model' | 'companion'
  readonly repository: string
  readonly revision: string
  /** Globs; without any, all files. */
  readonly allow: readonly string[]
  readonly ignore: readonly string[]
  /** The folder of its files in the folder of the model. */
  readonly folder: string
}

export interface HubFile {
  readonly path: string
  readonly size: number
  /** Known for large files. */
  readonly sha256: string | null
}

export interface HubListing {
  readonly commit: string
  readonly files: readonly HubFile[]
}

type Mapping = Readonly<Record<string, unknown>>

/** Backends that LocalAI gives a snapshot when `parameters.model` is `owner/name` and nothing else says where the files are. */
const snapshotBackends: ReadonlySet<string> = new Set([
  ...['transformers', 'sentencetransformers', 'huggingface-embeddings', 'mamba', 'transformers-musicgen'],
  ...['diffusers', 'qwen-asr', 'fish-speech', 'nemo', 'voxcpm', 'qwen-tts', 'liquid-audio'],
  ...['vllm', 'vllm-omni', 'sglang', 'longcat-video'],
])

const repositoryForm = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/

export type FoundArtifacts = Readonly<{ artifacts: readonly Artifact[] } | { problem: string }>

/** `config`: a merged LocalAI configuration. `filenames`: the files that it has beside. */
export function findArtifacts(config: Mapping, filenames: readonly string[]): FoundArtifacts {
  const model = modelOf(config)
  const listed: unknown = config['artifacts'] ?? []
  if (!Array.isArray(listed)) return { problem: 'artifacts: expected a list' }
  if (listed.length === 0) return { artifacts: impliedArtifact(config, { model, filenames }) }
  const artifacts: Artifact[] = []
  for (const [index, each] of listed.entries()) {
    const found = artifactOf(each, { index, model })
    if (typeof found === 'string') return { problem: `artifacts.${index}: ${found}` }
    artifacts.push(found)
  }
  return { artifacts }
}

const modelOf = (config: Mapping): string => {
  const parameters = config['parameters']
  return isMapping(parameters) && typeof parameters['model'] === 'string' ? parameters['model'] : ''
}

function impliedArtifact(config: Mapping, { model, filenames }: { model: string; filenames: readonly string[] }): Artifact[] {
  const backend = typeof config['backend'] === 'string' ? config['backend'] : ''
  const isFile = filenames.some((name) => name === model || name.startsWith(`${model}/`))
  if (!snapshotBackends.has(backend) || !repositoryForm.test(model) || isFile) return []
  return [{ name: 'model', role: 'model', repository: model, revision: 'main', allow: [], ignore: [], folder: model }]
}

function artifactOf(value: unknown, { index, model }: { index: number; model: string }): Artifact | string {
  const source = isMapping(value) ? value['source'] : null
  if (!isMapping(value) || !isMapping(source)) return 'expected a mapping with a source'
  if ((source['type'] ?? 'huggingface') !== 'huggingface') return `the source ${JSON.stringify(source['type'])} is not huggingface`
  const { repo, revision } = source
  if (typeof repo !== 'string' || !repositoryForm.test(repo)) return 'repo: expected owner/name of a repository of Hugging Face'
  const name = typeof value['name'] === 'string' && value['name'] !== '' ? value['name'] : 'model'
  const role = value['target'] === 'companion' ? 'companion' : 'model'
  if (role === 'companion' && !/^[\w-]{1,64}$/.test(name)) return 'name: a companion has a name of letters, digits, _ and -'
  if (role === 'model' && index > 0) return 'only the first artifact is the model; others have the target companion'
  return {
    ...{ name, role, repository: repo },
    revision: typeof revision === 'string' && revision !== '' ? revision : 'main',
    allow: textsOf(source['allow_patterns']),
    ignore: textsOf(source['ignore_patterns']),
    folder: role === 'companion' ? name : repositoryForm.test(model) ? model : repo,
  }
}

const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value : []).filter((each) => typeof each === 'string').slice(0, 256)

/** The files of a snapshot that the patterns select. `*` also matches a slash, as in Hugging Face's own tools. */
export function selectFiles({ files }: HubListing, { allow, ignore }: Pick<Artifact, 'allow' | 'ignore'>): HubFile[] {
  const isMatched = (path: string, patterns: readonly string[]): boolean => patterns.some((pattern) => matchesGlob(path, pattern))
  return files.filter(({ path }) => (allow.length === 0 || isMatched(path, allow)) && !isMatched(path, ignore))
}

/** Not a regular expression: a hostile pattern must not take more than the product of both lengths. */
export function matchesGlob(path: string, pattern: string): boolean {
  const glob = pattern.endsWith('/') ? `${pattern}*` : pattern
  let [at, inGlob, star, retry] = [0, 0, -1, 0]
  while (at < path.length) {
    if (glob[inGlob] === '*') {
      star = inGlob++
      retry = at
    } else if (inGlob < glob.length && (glob[inGlob] === '?' || glob[inGlob] === path[at])) {
      at++
      inGlob++
    } else if (star >= 0) {
      inGlob = star + 1
      at = ++retry
    } else return false
  }
  while (glob[inGlob] === '*') inGlob++
  return inGlob === glob.length
}

export interface Snapshot {
  readonly artifact: Artifact
  readonly listing: HubListing
}

/** A file of a repository is found by its commit, so that all nodes fetch the same content. */
export function snapshotFiles({ artifact, listing }: Snapshot): ConfigFile[] {
  return selectFiles(listing, artifact).map(({ path, sha256 }) => ({
    uri: `hf://${artifact.repository}@${listing.commit}/${path.split('/').map(encodeURIComponent).join('/')}`,
    filename: `${artifact.folder}/${path}`,
    ...(sha256 === null ? {} : { sha256 }),
  }))
}

/**
 * The LocalAI configuration for the files of its snapshots: `parameters.model` names the folder, or the only file; each
 * companion is an option unless the configuration has that option.
 */
export function applySnapshots(config: Mapping, snapshots: readonly Snapshot[]): Mapping {
  const { artifacts: _, ...rest } = config
  const parameters = isMapping(config['parameters']) ? config['parameters'] : {}
  const main = snapshots.find(({ artifact }) => artifact.role === 'model')
  const selected = main === undefined ? [] : snapshotFiles(main)
  const model = selected.length === 1 ? selected[0]?.filename : main?.artifact.folder
  const options: readonly unknown[] = Array.isArray(config['options']) ? config['options'] : []
  const hasOption = (name: string): boolean => options.some((each) => String(each).split(/[:=]/)[0] === name)
  const companions = snapshots.flatMap(({ artifact: { role, name, folder } }) =>
    role === 'companion' && !hasOption(name) ? [`${name}:${folder}`] : [],
  )
  return {
    ...rest,
    ...(model === undefined ? {} : { parameters: { ...parameters, model } }),
    ...(companions.length === 0 ? {} : { options: [...options, ...companions] }),
  }
}
