// Converts a LocalAI model configuration to one of Muster, and reports the fate of every key. Pure.
import { ConfigFile, FunctionConfig, ModelConfig, TemplateConfig } from '@muster/protocol'
import { chooseBackend } from './backend-names.pure.ts'
import { completeDraft, type Draft, type ModelFacts } from './complete-draft.pure.ts'
import { fileNameOf, toFileUri } from './file-uri.pure.ts'
import { boolOf, isObject, type PlainObject, readValue, textOf } from './go-values.pure.ts'
import { findMisplacedKey, findModelKey, isGroup, type KeyOutcome, type ModelKey } from './model-keys.pure.ts'

export type { KeyOutcome } from './model-keys.pure.ts'

export interface ConvertedKey {
  /** Dotted path in the LocalAI configuration. */
  readonly key: string
  readonly outcome: KeyOutcome
  /** The key of Muster that it became; null for no_effect and refused. */
  readonly to: string | null
  /** For people: what happens, and if refused, what to do. */
  readonly message: string
}

/** `config` is a Muster configuration, not yet checked by ModelConfig. It is complete only when no key is refused. */
export type Conversion = Readonly<{ config: Readonly<Record<string, unknown>>; keys: readonly ConvertedKey[] }>

type Fate = Omit<ConvertedKey, 'key'>

export function convertModel(source: Readonly<Record<string, unknown>>): Conversion {
  const draft: Draft = { own: {}, parameters: {}, misplaced: {}, template: {}, function: {}, files: [], type: null }
  const about = aboutModel(source)
  const keys = entriesOf(source).map(({ key, value }): ConvertedKey => ({ key, ...convertKey({ key, value, draft, about }) }))
  const isBackendNamed = keys.some(({ key }) => key === 'backend')
  const guessed = isBackendNamed ? [] : [{ key: 'backend', ...convertBackend('', { draft, about }) }]
  return { config: completeDraft(draft, about), keys: [...keys, ...guessed] }
}

/** True when a configuration has keys or forms that only LocalAI has. */
export function isLocalAiModel(source: Readonly<Record<string, unknown>>): boolean {
  return entriesOf(source).some(({ key, value }) => findModelKey(key) !== undefined && (!isMusterKey(key) || isLocalAiForm(key, value)))
}

function isMusterKey(key: string): boolean {
  const [top = '', below = '', deep] = key.split('.')
  if (!Object.hasOwn(ModelConfig.shape, top)) return false
  if (top === 'template' && below !== '') return Object.hasOwn(TemplateConfig.shape, below)
  if (top !== 'function' || below === '') return true
  return below === 'grammar' ? deep === undefined || deep === 'triggers' : Object.hasOwn(FunctionConfig.shape, below)
}

function isLocalAiForm(key: string, value: unknown): boolean {
  if (key === 'known_usecases') return Array.isArray(value) && value.some((word) => typeof word === 'string' && /^FLAG_/i.test(word))
  return key === 'parameters.model' && typeof value === 'string' && fileNameOf(value) !== null
}

interface Entry {
  readonly key: string
  readonly value: unknown
}

/** The keys that have a row, or stand where one could be: mappings that are no groups are values. */
function entriesOf(source: PlainObject, prefix = ''): Entry[] {
  return Object.entries(source).flatMap(([name, value]) => {
    const key = `${prefix}${name}`
    return isGroup(key) && isObject(value) ? entriesOf(value, `${key}.`) : [{ key, value }]
  })
}

function aboutModel(source: PlainObject): ModelFacts {
  const template = isObject(source['template']) ? source['template'] : {}
  const parameters = isObject(source['parameters']) ? source['parameters'] : {}
  return {
    name: textOf(source['name']) ?? '',
    model: textOf(parameters['model']) ?? '',
    isDelegated: boolOf(template['use_tokenizer_template']) === true,
    printsSystemPrompt: Object.values(template).some((text) => typeof text === 'string' && text.includes('.SystemPrompt')),
    hasFiles: ['files', 'download_files'].some((key) => Array.isArray(source[key]) && source[key].length > 0),
  }
}

interface KeyContext extends Entry {
  readonly draft: Draft
  readonly about: ModelFacts
}

const none = (message: string): Fate => ({ outcome: 'no_effect', to: null, message })
const refusal = (message: string): Fate => ({ outcome: 'refused', to: null, message })

function convertKey(context: KeyContext): Fate {
  const { key, value } = context
  const misplaced = findMisplacedKey(key)
  if (misplaced !== undefined) return convertMisplaced(misplaced, context)
  const row = findModelKey(key)
  if (row === undefined) return isGroup(key) ? convertGroup(value) : none('LocalAI does not know this key and ignores it too.')
  if (value === null) return none('It has no value, so the default counts.')
  const special = specials[row.type] ?? specials[row.key]
  if (special !== undefined) return special(value, { ...context, row })
  if (row.outcome === 'no_effect') return none(row.message)
  return row.outcome === 'refused' ? convertRefused(row, value) : convertPlain(row, context)
}

const convertGroup = (value: unknown): Fate =>
  value === null
    ? none('It has no value, so the default counts.')
    : refusal('LocalAI expects a mapping here, and refuses the file as well.')

/** Text, `false` and an empty mapping mean that nothing is set. */
function convertRefused({ type, message }: ModelKey, value: unknown): Fate {
  const isUnset = type === 'bool' ? boolOf(value) === false : value === '' || value === false || (isObject(value) && isUnsetMap(value))
  return isUnset ? none('It has no value, so the default counts.') : refusal(message)
}

const isUnsetMap = (value: PlainObject): boolean => Object.values(value).every((each) => each === null || each === '' || each === false)

function convertPlain(row: ModelKey, { value, draft, about }: KeyContext): Fate {
  if (about.isDelegated && isForGoTemplates(row.key))
    return none('The backend uses the template of the model itself, so this one is not used.')
  const read = readValue(row.type, value)
  switch (read.is) {
    case 'empty':
      return none('It has no value, so the default counts.')
    case 'refused':
      return refusal(`${sentence(read.message)}.`)
    default:
      place(draft, row.to ?? '', read.value)
      return { outcome: row.outcome, to: row.to, message: row.message }
  }
}

const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

const goTemplates = new Set(['template.chat', 'template.chat_message', 'template.function', 'template.multimodal'])
const isForGoTemplates = (key: string): boolean =>
  goTemplates.has(key) || (key.startsWith('function.') && key !== 'function.grammar.triggers')

function place(draft: Draft, to: string, value: unknown): void {
  const [top = '', below, deep] = to.split('.')
  if (below === undefined) draft.own[top] = value
  else if (top === 'parameters') draft.parameters[below] = value
  else if (top === 'template') draft.template[below] = value
  else if (top === 'function') draft.function[below] = deep === undefined ? value : { [deep]: value }
}

/** LocalAI ignores it below `parameters`; the same value at the top level counts first. */
function convertMisplaced(row: ModelKey, { value, draft }: KeyContext): Fate {
  const read = readValue(row.type, value)
  if (read.is === 'refused') return refusal(`${sentence(read.message)}.`)
  if (read.is === 'empty' || row.to === null) return none('It has no value, so the default counts.')
  draft.misplaced[row.to] = read.value
  const message = `LocalAI ignores it here and reads ${row.key} at the top level; Muster takes it as meant, unless it is there too.`
  return { outcome: row.outcome, to: row.to, message }
}

type Special = (value: unknown, context: KeyContext & { readonly row: ModelKey }) => Fate

/** Conversions of a type, or of one key, that are more than reading a value. */
const specials: Readonly<Record<string, Special>> = {
  backend: (value, context) => convertBackend(value, context),
  file: (value, context) => convertFile(value, context),
  artifacts: (value, { about, row }) => convertArtifacts(value, { isListed: about.hasFiles, message: row.message }),
  downloads: (value, { draft, row }) => convertDownloads(value, { draft, message: row.message }),
  pooling: (value, { row }) => (value === '' || value === 'backend' ? none('Pooling is left to the backend.') : refusal(row.message)),
  system: (value, context) =>
    context.about.printsSystemPrompt
      ? convertPlain({ ...context.row, type: 'text' }, context)
      : none('No template of this model prints it.'),
  pinned: (value, { draft }) => {
    if (boolOf(value) !== true) return none('The model is not pinned.')
    draft.own['pinned'] = true
    return {
      outcome: 'mapped',
      to: 'scheduling.min_replicas',
      message: 'One replica always runs (min_replicas: 1), with a higher priority.',
    }
  },
  disabled: (value, { draft }) => {
    if (boolOf(value) !== true) return none('The model is not disabled.')
    draft.own['disabled'] = true
    return {
      outcome: 'mapped',
      to: 'scheduling.disabled',
      message: 'The model runs nowhere, and requests for it are refused until it is enabled.',
    }
  },
  'diffusers.cuda': (value, context) => {
    if (boolOf(value) === false) return none('The key cuda at the top level decides.')
    return convertPlain(context.row, context)
  },
}

function convertBackend(value: unknown, { draft, about }: { draft: Draft; about: ModelFacts }): Fate {
  const written = textOf(value)
  if (written === null) return refusal('LocalAI expects a text here, and refuses the file as well.')
  const choice = chooseBackend(written, about.model)
  if (choice.is === 'refused') return refusal(`${sentence(choice.message)}.`)
  draft.own['backend'] = choice.name
  draft.type = choice.type
  const isSame = choice.name === written
  const type = choice.type === null ? '' : `, with the type ${choice.type}`
  const message = isSame
    ? 'The backend, by its name in the galleries.'
    : `${written === '' ? 'A .gguf file without a backend' : written} is served by ${choice.name}${type}.`
  return { outcome: 'mapped', to: 'backend', message }
}

/** A path is kept; an address becomes a file of the model with the last part of the address as its name. */
function convertFile(value: unknown, context: KeyContext & { readonly row: ModelKey }): Fate {
  const { row, draft } = context
  const uri = textOf(value)
  const filename = uri === null ? null : fileNameOf(uri)
  if (uri === null || filename === null) return withSourceHint(convertPlain(row, context), context)
  const fate = convertPlain(row, { ...context, value: filename })
  if (fate.outcome === 'refused' || fate.outcome === 'no_effect') return refusal('The address names no file.')
  draft.files.push({ uri: toFileUri(uri), filename })
  return { ...fate, message: `Fetched from ${toFileUri(uri)}, as ${filename} in the folder of the model.` }
}

/** A LocalAI file names only the file; its source is in another file or nowhere. */
function withSourceHint(fate: Fate, { key, about }: KeyContext): Fate {
  const isLoose = key === 'parameters.model' && !about.hasFiles && /\.(?:gguf|ggml|bin|onnx|pt|safetensors)$/i.test(about.model)
  if (fate.outcome !== 'mapped' || !isLoose) return fate
  return { ...fate, message: 'The file to load. Name its source under files, or send it to the nodes with "muster models upload".' }
}

function convertDownloads(value: unknown, { draft, message }: { draft: Draft; message: string }): Fate {
  if (!Array.isArray(value)) return refusal('LocalAI expects a list here, and refuses the file as well.')
  for (const [index, item] of value.entries()) {
    const { filename, uri, sha256 } = isObject(item) ? item : {}
    const hash = textOf(sha256) ?? ''
    const file = ConfigFile.safeParse({
      filename,
      uri: toFileUri(textOf(uri) ?? ''),
      ...(hash === '' ? {} : { sha256: hash.toLowerCase() }),
    })
    if (!file.success) return refusal(`File ${index + 1} cannot be taken: ${file.error.issues[0]?.message ?? 'it is not valid'}.`)
    draft.files.push(file.data)
  }
  return value.length === 0 ? none('It has no value, so the default counts.') : { outcome: 'mapped', to: 'files', message }
}

/** The files of a repository are known only to the hub, so a caller that has listed them gives them under `files`. */
function convertArtifacts(value: unknown, { isListed, message }: { isListed: boolean; message: string }): Fate {
  if (!Array.isArray(value) || value.length === 0) return none('It has no value, so the default counts.')
  if (isListed) return { outcome: 'mapped', to: 'files', message }
  const names = value.flatMap((item) => {
    const repository = isObject(item) && isObject(item['source']) ? textOf(item['source']['repo']) : null
    return repository === null ? [] : [repository]
  })
  return none(
    `Write the files of ${names.join(', ') || 'the repository'} under files; "muster models install" lists them. Without them the backend fetches the repository when it starts.`,
  )
}
