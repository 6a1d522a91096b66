// Parses a model's configuration, or converts one of LocalAI. Every error names the key, its line and, for an unknown key, the
// closest known one.
import { createHash } from 'node:crypto'
import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, Scalar } from 'yaml'
import type { z } from 'zod'
import { closestWord } from '@muster/host'
import { ConfigFile, FleetError, FunctionConfig, ModelConfig, type ModelName, Scheduling, TemplateConfig } from '@muster/protocol'
import { type ConvertedKey, convertModel, isLocalAiModel } from '@muster/source'

export interface ConfigProblem {
  readonly key: string
  readonly line: number | null
  readonly closest?: string
}

export class InvalidConfig extends Error {
  readonly problem: ConfigProblem
  /** The report about a LocalAI configuration; null: it is one of Muster. */
  readonly keys: readonly ConvertedKey[] | null

  constructor(message: string, problem: ConfigProblem, keys: readonly ConvertedKey[] | null = null) {
    super(message)
    this.name = 'InvalidConfig'
    this.problem = problem
    this.keys = keys
  }
}

/** `keys`: the report about a converted LocalAI configuration; null: the text is a Muster configuration. */
export type ParsedConfig = Readonly<{ config: ModelConfig; keys: readonly ConvertedKey[] | null }>

export interface ConfigSource {
  /** The name in the path, which a name in the text must equal; null: the text must contain it. */
  readonly name: ModelName | null
  readonly format: ConfigFormat
  /** The text is LocalAI's even if no key of it shows that. */
  readonly isLocalAi?: boolean
}

/**
 * A text with a key or form that only LocalAI has is converted; then LocalAI's rules count, and unknown keys are reported instead
 * of refused. Throws InvalidConfig, or UnreadableConfig when the text cannot be parsed at all.
 */
export function parseConfig(text: string, { name, format, isLocalAi = false }: ConfigSource): ParsedConfig {
  const read = readConfigText(text, format)
  if (typeof read.value !== 'object' || read.value === null || Array.isArray(read.value))
    throw new InvalidConfig('a model configuration is a mapping of keys and values', { key: '', line: null })
  const value = { ...(name === null ? {} : { name }), ...read.value }
  if (!isLocalAi && !isLocalAiModel(value)) return { config: checkConfig(value, { name, lineOf: read.lineOf }), keys: null }
  return convertConfig(value, { name, lineOf: read.lineOf })
}

type LocalAiSource = Readonly<Record<string, unknown>>

function convertConfig(source: LocalAiSource, { name, lineOf }: { name: ModelName | null; lineOf: ConfigText['lineOf'] }): ParsedConfig {
  const { config, keys } = convertModel(source)
  const ambiguity = findAmbiguity(source)
  if (ambiguity !== null) throw invalid(ambiguity, ['backend'], lineOf, keys)
  const [first, ...more] = keys.filter(({ outcome }) => outcome === 'refused')
  if (first !== undefined) {
    const others = more.length === 0 ? '' : ` (also refused: ${more.map(({ key }) => key).join(', ')})`
    throw invalid(`${first.message}${others}`, first.key.split('.'), lineOf, keys)
  }
  const sourceOf = (path: readonly PropertyKey[]): readonly PropertyKey[] => {
    const key = path.map(String).join('.')
    return keys.find(({ to }) => to !== null && `${key}.`.startsWith(`${to}.`))?.key.split('.') ?? path
  }
  try {
    return { config: checkConfig(config, { name, lineOf: (path) => lineOf(sourceOf(path)) }), keys }
  } catch (error) {
    throw error instanceof InvalidConfig ? new InvalidConfig(error.message, error.problem, keys) : error
  }
}

/** `llama` is the built-in backend of Muster, and llama-cpp in LocalAI's files. */
function findAmbiguity(source: LocalAiSource): string | null {
  const own = ['files', 'scheduling'].filter((key) => key in source)
  if (source['backend'] !== 'llama' || own.length === 0) return null
  return `the file has keys of LocalAI, where llama means llama-cpp, and keys of Muster (${own.join(', ')}), where llama is the built-in backend: write llama-cpp, or move the keys of LocalAI under parameters`
}

/** The same checks for parsed values, such as those of a gallery. */
export function checkConfig(value: object, { name, lineOf }: { name: ModelName | null; lineOf: ConfigText['lineOf'] }): ModelConfig {
  const parsed = ModelConfig.safeParse(value)
  if (!parsed.success) throw explain(parsed.error, lineOf)
  if (name !== null && parsed.data.name !== name)
    throw invalid(
      `the name ${JSON.stringify(parsed.data.name)} differs from the one in the path, ${JSON.stringify(name)}`,
      ['name'],
      lineOf,
    )
  const clash = clashing(parsed.data.files.map(({ filename }) => filename))
  if (clash !== null) throw invalid(clash.message, ['files', clash.index, 'filename'], lineOf)
  return parsed.data
}

/** Only the first issue: the others are often its consequences. */
function explain(error: z.ZodError, lineOf: ConfigText['lineOf']): InvalidConfig {
  const unknown = error.issues.find((issue) => issue.code === 'unrecognized_keys')
  const issue = unknown ?? error.issues[0]
  if (issue?.code !== 'unrecognized_keys') return invalid(issue?.message ?? 'it is not valid', issue?.path ?? [], lineOf)
  const key = issue.keys[0] ?? ''
  const path = [...issue.path, key]
  const closest = closestWord(key, knownAt(issue.path)) ?? ''
  const line = lineOf(path)
  const message = `${at(line)}unknown key ${JSON.stringify(path.join('.'))}; the closest known key is ${closest}`
  return new InvalidConfig(message, { key, line, closest })
}

function invalid(
  message: string,
  path: readonly PropertyKey[],
  lineOf: ConfigText['lineOf'],
  keys: readonly ConvertedKey[] | null = null,
): InvalidConfig {
  const key = path.map(String).join('.')
  const line = lineOf(path)
  return new InvalidConfig(`${at(line)}${key === '' ? '' : `${key}: `}${message}`, { key, line }, keys)
}

const at = (line: number | null): string => (line === null ? '' : `line ${line}: `)

const nested = { files: ConfigFile, scheduling: Scheduling, template: TemplateConfig, function: FunctionConfig } as const

function knownAt([first]: readonly PropertyKey[]): string[] {
  const known = Object.entries(nested).find(([key]) => key === first)
  return Object.keys((known?.[1] ?? ModelConfig).shape)
}

/** Two files have the same path, or one file is where another needs a folder. */
function clashing(names: readonly string[]): { index: number; message: string } | null {
  const files = new Set<string>()
  const folders = new Set<string>()
  for (const [index, name] of names.entries()) {
    if (files.has(name)) return { index, message: `two files have the name ${JSON.stringify(name)}` }
    const above = name.split('/').flatMap((_, depth, parts) => (depth === 0 ? [] : [parts.slice(0, depth).join('/')]))
    if (folders.has(name) || above.some((folder) => files.has(folder)))
      return { index, message: `${JSON.stringify(name)} is a file and the folder of another` }
    files.add(name)
    for (const folder of above) folders.add(folder)
  }
  return null
}

// The revision: a hash of everything that a process is started with. Formatting, the order of keys and files, and scheduling are
// not part of it.

type Meaning = Pick<ModelConfig, 'backend' | 'parameters' | 'context_size' | 'files' | 'options' | 'template' | 'roles' | 'function'>

/** Keys that came later count only when they are given, so that the revisions of older configurations stay. */
export function revisionOf({ backend, parameters, context_size = 0, files, options, template, roles, function: tools }: Meaning): string {
  // Names of files are unique, so their order means nothing.
  const sorted = files.toSorted((a, b) => (a.filename < b.filename ? -1 : 1))
  const text = canonical({ backend, parameters, context_size, files: sorted, options, ...givenOf({ template, roles, function: tools }) })
  return `sha256-${createHash('sha256').update(text).digest('hex')}`
}

/** An empty mapping means the same as none. */
const givenOf = (parts: Readonly<Record<string, object | undefined>>): object =>
  Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined && Object.keys(part).length > 0))

/** JSON with sorted keys, without undefined values. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  return `{${entries
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`)
    .join(',')}}`
}

// Reads the text as plain values with their lines. All limits are enforced here: the result is a JSON tree that PostgreSQL can
// store.

export type ConfigFormat = 'json' | 'yaml'

interface ConfigText {
  readonly value: unknown
  /** The line of the key or item at this path, or of its parent; null when unknown. */
  lineOf(path: readonly PropertyKey[]): number | null
}

const maxChars = 1_048_576
const maxDepth = 32
/** Values after all aliases are followed. */
const maxValues = 20_000

/** Neither YAML nor JSON, or beyond a limit. */
export class UnreadableConfig extends FleetError {
  readonly line: number | null

  constructor(line: number | null, problem: string) {
    const where = line === null ? '' : `line ${line}: `
    super({ code: 'invalid', retry: 'never', message: `the configuration cannot be read: ${where}${problem}` })
    this.line = line
  }
}

/** Throws UnreadableConfig. */
export function readConfigText(text: string, format: ConfigFormat): ConfigText {
  if (text.length > maxChars) throw refusal(null, `it has ${text.length} characters; at most ${maxChars} are read`)
  const json = format === 'json' ? parseJson(text) : undefined
  const lines = new LineCounter()
  // Duplicate keys are found below: the library compares every key with every other. Its pretty errors quote the text.
  const options = { schema: 'core', uniqueKeys: false, prettyErrors: false, resolveKnownTags: false, logLevel: 'silent' } as const
  const document = composed(() => parseDocument(text, { ...options, lineCounter: lines }))
  const line = (offset: number): number => lines.linePos(offset).line
  const problem = document.errors[0] ?? document.warnings[0]
  // Not all JSON is YAML (a tab may begin a line). Then errors have no line.
  if (problem !== undefined) {
    if (json === undefined) throw refusal(line(problem.pos[0]), explainSyntax(problem.message))
    checkPlain(json.value, 0)
    return { value: json.value, lineOf: () => null }
  }
  const value = createReader(line).read(document.contents, 0)
  return { value: json === undefined ? value : json.value, lineOf: (path) => lineAt(document, path, line) }
}

function parseJson(text: string): { value: unknown } {
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    throw refusal(null, `it is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** The same checks for values without lines. */
function checkPlain(value: unknown, depth: number): void {
  if (depth > maxDepth) throw refusal(null, `it is nested deeper than ${maxDepth}`)
  if (typeof value === 'string' && !isStorable(value)) throw refusal(null, notStorable)
  if (typeof value !== 'object' || value === null) return
  for (const [key, each] of Object.entries(value)) {
    checkPlain(key, depth)
    checkPlain(each, depth + 1)
  }
}

const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed()
const notStorable = 'text must not contain NUL or lone surrogates'

/** The stack overflows when nesting is too deep. */
const explainSyntax = (message: string): string => (message.includes('call stack') ? 'it is nested too deeply' : message)

function composed<T>(compose: () => T): T {
  try {
    return compose()
  } catch (error) {
    throw refusal(null, explainSyntax(error instanceof Error ? error.message : String(error)))
  }
}

function createReader(line: (offset: number) => number) {
  // The library searches the whole document for each alias.
  const anchors = new Map<string, Node>()
  let count = 0
  const fail = (node: Node | null, what: string): never => {
    throw refusal(node?.range === null || node?.range === undefined ? null : line(node.range[0]), what)
  }

  function read(node: Node | null, depth: number): unknown {
    count += 1
    if (node === null) return null
    if (count > maxValues) return fail(node, `it has more than ${maxValues} values`)
    if (depth > maxDepth) return fail(node, `it is nested deeper than ${maxDepth}`)
    // A cycle ends at the maximum depth.
    if (isAlias(node)) return read(anchors.get(node.source) ?? fail(node, `*${node.source} is not defined before`), depth + 1)
    if (node.anchor !== undefined) anchors.set(node.anchor, node)
    if (isMap(node)) return readMap(node.items, { node, depth })
    if (isSeq(node)) return node.items.map((item) => read(item as Node, depth + 1))
    return isScalar(node) ? checked(node.value, node) : fail(node, 'it contains something other than values, lists and mappings')
  }

  function readMap(items: readonly Pair[], { node, depth }: { node: Node; depth: number }): unknown {
    const entries = new Map<string, unknown>()
    const merged: unknown[] = []
    for (const { key, value } of items) {
      if (!isScalar(key)) return fail(node, 'keys must be plain strings')
      const name = String(checked(key.value, key))
      if (name === '<<' && key.type === Scalar.PLAIN) {
        merged.push(read(value as Node | null, depth + 1))
        continue
      }
      if (entries.has(name)) return fail(key, `duplicate key ${JSON.stringify(name)}`)
      entries.set(name, read(value as Node | null, depth + 1))
    }
    // Own keys win over merged ones, earlier merges over later ones.
    for (const each of merged.flat()) {
      if (typeof each !== 'object' || each === null) return fail(node, 'a merge key (<<) takes a mapping or a list of mappings')
      for (const [name, value] of Object.entries(each)) if (!entries.has(name)) entries.set(name, value)
    }
    return Object.fromEntries(entries)
  }

  function checked(value: unknown, node: Node): unknown {
    if (typeof value === 'number' && !Number.isFinite(value)) return fail(node, `${value} is not a JSON number`)
    if (typeof value === 'string' && !isStorable(value)) return fail(node, notStorable)
    return value
  }
  return { read }
}

function lineAt(document: Document.Parsed, path: readonly PropertyKey[], line: (offset: number) => number): number | null {
  let node: unknown = document.contents
  let found: number | null = null
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair: Pair | undefined = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
      if (pair === undefined || !isScalar(pair.key)) return found
      found = line(pair.key.range?.[0] ?? 0)
      node = pair.value
    } else if (isSeq(node)) {
      node = node.items[Number(step)]
      const range = (node as Node | undefined)?.range
      if (range !== null && range !== undefined) found = line(range[0])
    }
  }
  return found
}

const refusal = (line: number | null, problem: string): UnreadableConfig => new UnreadableConfig(line, problem)
