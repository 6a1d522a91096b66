// Converts a LocalAI model configuration to one of Muster, and reports the fate of every key. Pure.
import { FunctionConfig, ModelConfig, TemplateConfig } from '@muster/protocol'
import { chooseBackend } from './backend-names.pure.ts'
import { completeDraft, type Draft, type ModelFacts } from './complete-draft.pure.ts'
import { boolOf, isObject, type PlainObject, readValue, textOf } from './go-values.pure.ts'
import { findMisplacedKey, findModelKey, isGroup, type KeyOutcome, type ModelKey } from './model-keys.pure.ts'
import { isAddress, listRepositories, readAddress, readDownloads } from './model-sources.pure.ts'

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
  return key === 'parameters.model' && typeof value === 'string' && isAddress(value)
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
const refusal = (message: string): Fate => ({ outcome: 'refused', to: null, message: `${sentence(message)}.` })
const unset = none('It has no value, so the default counts.')
const sentence = (text: string): string => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`.replace(/\.$/, '')

function convertKey(context: KeyContext): Fate {
  const { key, value } = context
  const misplaced = findMisplacedKey(key)
  if (misplaced !== undefined) return convertMisplaced(misplaced, context)
  const row = findModelKey(key)
  if (row === undefined) return isGroup(key) ? convertGroup(value) : none('LocalAI does not know this key and ignores it too.')
  if (value === null && row.type !== 'backend') return unset
  const special = specials[row.type] ?? specials[row.key]
  if (special !== undefined) return special(value, { ...context, row })
  if (row.outcome === 'no_effect') return none(row.message)
  return row.outcome === 'refused' ? convertRefused(row, value) : convertPlain(row, context)
}

const convertGroup = (value: unknown): Fate =>
  value === null ? unset : refusal('LocalAI expects a mapping here, and refuses the file as well.')

/** Text, `false` and an empty mapping mean that nothing is set. */
function convertRefused({ type, message }: ModelKey, value: unknown): Fate {
  const isUnset = type === 'bool' ? boolOf(value) === false : value === '' || value === false || (isObject(value) && isUnsetMap(value))
  return isUnset ? unset : refusal(message)
}

const isUnsetMap = (value: PlainObject): boolean => Object.values(value).every((each) => each === null || each === '' || each === false)

function convertPlain(row: ModelKey, { value, draft, about }: KeyContext): Fate {
  if (about.isDelegated && isForGoTemplates(row.key))
    return none('The backend uses the template of the model itself, so this one is not used.')
  const read = readValue(row.type, value)
  switch (read.is) {
    case 'empty':
      return unset
    case 'refused':
      return refusal(read.message)
    default:
      place(draft, row.to ?? '', read.value)
      return { outcome: row.outcome, to: row.to, message: row.message }
  }
}

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
  if (read.is === 'refused') return refusal(read.message)
  if (read.is === 'empty' || row.to === null) return unset
  draft.misplaced[row.to] = read.value
  const message = `LocalAI ignores it here and reads ${row.key} at the top level; Muster takes it as meant, unless it is there too.`
  return { outcome: row.outcome, to: row.to, message }
}

type RowContext = KeyContext & { readonly row: ModelKey }
type Special = (value: unknown, context: RowContext) => Fate

/** Conversions of a type, or of one key, that are more than reading a value. */
const specials: Readonly<Record<string, Special>> = {
  backend: (value, context) => convertBackend(value, context),
  file: (value, context) => convertFile(value, context),
  artifacts: (value, context) => convertArtifacts(value, context),
  downloads: (value, context) => convertDownloads(value, context),
  pooling: (value, { row }) => (value === '' || value === 'backend' ? none('Pooling is left to the backend.') : refusal(row.message)),
  system: (value, context) =>
    context.about.printsSystemPrompt
      ? convertPlain({ ...context.row, type: 'text' }, context)
      : none('No template of this model prints it.'),
  pinned: (value, context) => convertFlag(value, 'scheduling.min_replicas', context),
  disabled: (value, context) => convertFlag(value, 'scheduling.disabled', context),
  'diffusers.cuda': (value, context) => {
    if (boolOf(value) === false) return none('The key cuda at the top level decides.')
    return convertPlain(context.row, context)
  },
}

function convertBackend(value: unknown, { draft, about }: { draft: Draft; about: ModelFacts }): Fate {
  const written = textOf(value ?? '')
  if (written === null) return refusal('LocalAI expects a text here, and refuses the file as well.')
  const choice = chooseBackend(written, about.model)
  if (choice.is === 'refused') return refusal(choice.message)
  draft.own['backend'] = choice.name
  draft.type = choice.type
  const isSame = choice.name === written
  const type = choice.type === null ? '' : `, with the type ${choice.type}`
  const message = isSame
    ? 'The backend, by its name in the galleries.'
    : `${written === '' ? 'A .gguf file without a backend' : written} is served by ${choice.name}${type}.`
  return { outcome: 'mapped', to: 'backend', message }
}

/** A flag that becomes a part of the scheduling when it is true. */
function convertFlag(value: unknown, to: string, { draft, row }: RowContext): Fate {
  const read = readValue('bool', value)
  if (read.is === 'refused') return refusal(read.message)
  if (read.is === 'empty' || read.value === false) return unset
  draft.own[row.key] = true
  return { outcome: 'mapped', to, message: row.message }
}

/** A path is kept; an address becomes a file of the model. */
function convertFile(value: unknown, context: RowContext): Fate {
  const { row, draft } = context
  const address = textOf(value)
  if (address === null || !isAddress(address)) return withSourceHint(convertPlain(row, context), context)
  const found = readAddress(address)
  if ('problem' in found) return refusal(found.problem)
  const { uri, filename } = found.file
  draft.files.push(found.file)
  return {
    ...convertPlain(row, { ...context, value: filename }),
    message: `Fetched from ${uri}, as ${filename} in the folder of the model.`,
  }
}

/** A LocalAI file names only the file; its source is in another file or nowhere. */
function withSourceHint(fate: Fate, { key, about }: KeyContext): Fate {
  const isLoose = key === 'parameters.model' && !about.hasFiles && /\.(?:gguf|ggml|bin|onnx|pt|safetensors)$/i.test(about.model)
  if (fate.outcome !== 'mapped' || !isLoose) return fate
  return { ...fate, message: 'The file to load. Name its source under files, or send it to the nodes with "muster models upload".' }
}

function convertDownloads(value: unknown, { draft, row }: RowContext): Fate {
  const read = readDownloads(value)
  if ('problem' in read) return refusal(read.problem)
  if (read.files.length === 0) return unset
  draft.files.push(...read.files)
  return { outcome: 'mapped', to: 'files', message: row.message }
}

/** The files of a repository are known only to the hub, so a caller that has listed them gives them under `files`. */
function convertArtifacts(value: unknown, { about, row }: RowContext): Fate {
  const repositories = listRepositories(value)
  if (repositories === null) return unset
  if (about.hasFiles) return { outcome: 'mapped', to: 'files', message: row.message }
  const names = repositories.length === 0 ? 'the repository' : repositories.join(', ')
  return none(
    `Write the files of ${names} under files; "muster models install" lists them. Without them the backend fetches the repository when it starts.`,
  )
}
