// The text of a model's configuration as plain values, with the line of everything in it. Every limit is here: what comes
// out is a tree of JSON that PostgreSQL can keep.
import { FleetError } from '@muster/protocol'
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node, type Pair } from 'yaml'

export type ConfigFormat = 'json' | 'yaml'

export interface ConfigText {
  readonly value: unknown
  /** Of the key or item at this place, or of what it would be in; null when nobody knows. */
  lineOf(path: readonly PropertyKey[]): number | null
}

const maxChars = 1_048_576
const maxDepth = 32
/** Values after all aliases are followed. */
const maxValues = 20_000

/** It is neither YAML nor JSON, or more than is read. */
export class UnreadableConfig extends FleetError {
  readonly line: number | null

  constructor(line: number | null, problem: string) {
    const where = line === null ? '' : `line ${line}: `
    super({ code: 'invalid', retry: 'never', message: `the configuration can't be read: ${where}${problem}` })
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
  // Not all JSON is YAML (a tab may begin a line); then there is only no line to name.
  if (problem !== undefined) {
    if (json === undefined) throw refusal(line(problem.pos[0]), explain(problem.message))
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

/** What the reader below checks, for values that have no lines. */
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
const notStorable = 'a text has no NUL and no half characters'

/** Its stack ends where nesting goes too deep. */
const explain = (message: string): string => (message.includes('call stack') ? 'it is nested too deeply' : message)

function composed<T>(compose: () => T): T {
  try {
    return compose()
  } catch (error) {
    throw refusal(null, explain(error instanceof Error ? error.message : String(error)))
  }
}

function createReader(line: (offset: number) => number) {
  // The library looks for an alias in the whole document each time.
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
    // One that contains itself ends at the depth.
    if (isAlias(node)) return read(anchors.get(node.source) ?? fail(node, `*${node.source} is not defined before`), depth + 1)
    if (node.anchor !== undefined) anchors.set(node.anchor, node)
    if (isMap(node)) return readMap(node.items, { node, depth })
    if (isSeq(node)) return node.items.map((item) => read(item as Node, depth + 1))
    return isScalar(node) ? checked(node.value, node) : fail(node, 'it has something that is neither a value, a list nor a mapping')
  }

  function readMap(items: readonly Pair[], { node, depth }: { node: Node; depth: number }): unknown {
    const entries = new Map<string, unknown>()
    for (const { key, value } of items) {
      if (!isScalar(key)) return fail(node, 'its keys must be plain words')
      const name = String(checked(key.value, key))
      if (entries.has(name)) return fail(key, `the key ${JSON.stringify(name)} is there twice`)
      entries.set(name, read(value as Node | null, depth + 1))
    }
    return Object.fromEntries(entries)
  }

  function checked(value: unknown, node: Node): unknown {
    if (typeof value === 'number' && !Number.isFinite(value)) return fail(node, `${value} is no number that JSON has`)
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
