// Untrusted YAML as plain values. The library only parses; values are built here, in one walk whose cost is counted: aliases
// and merge keys can make a page stand for billions of values, and the library's own limits either refuse valid galleries
// (which use many aliases) or take quadratic time (duplicate keys).
import { errorMessage } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, Scalar, type Document, type Node, type YAMLMap } from 'yaml'

export type YamlValue = string | number | boolean | null | readonly YamlValue[] | YamlObject
export interface YamlObject {
  readonly [key: string]: YamlValue
}

export interface YamlLimits {
  readonly maxBytes: number
  /** The number of values with all aliases and merge keys expanded. */
  readonly maxValues: number
  readonly maxDepth: number
  /** Numbers and booleans stay text (`version: 1.10` is "1.10"), or are parsed. */
  readonly scalars?: 'text' | 'typed'
}

/** The value of a node, and the number of values in it. */
interface Made {
  readonly value: YamlValue
  readonly weight: number
}

/** Core schema with merge keys. `what` is the subject of errors. */
export function readYaml(text: string, what: string, limits: YamlLimits): YamlValue {
  const bytes = Buffer.byteLength(text)
  if (bytes > limits.maxBytes) throw refusal(what, `it has ${bytes} bytes; at most ${limits.maxBytes} are read`)
  const lines = new LineCounter()
  const document = compose(text, what, lines)
  const problem = document.errors[0] ?? document.warnings[0]
  if (problem !== undefined) throw refusal(what, explain(problem.message))
  return document.contents === null ? null : createReader({ what, limits, lines }).read(document.contents, 0).value
}

function compose(text: string, what: string, lineCounter: LineCounter): Document.Parsed {
  try {
    // Duplicate keys are found below: the library compares every key with every other.
    return parseDocument(text, { schema: 'core', merge: true, uniqueKeys: false, resolveKnownTags: false, logLevel: 'error', lineCounter })
  } catch (error) {
    throw refusal(what, explain(errorMessage(error)), { cause: error })
  }
}

/** The first line of the library's message; too deep nesting overflows its stack. */
const explain = (message: string): string =>
  message.includes('call stack') ? 'it is nested too deeply' : (message.split('\n')[0] ?? '').slice(0, 300)

function createReader({ what, limits, lines }: { what: string; limits: YamlLimits; lines: LineCounter }) {
  const anchors = new Map<string, Made | 'open'>()
  let total = 0

  const fail = (node: Node, problem: string): never => {
    const at = node.range === null || node.range === undefined ? '' : `line ${lines.linePos(node.range[0]).line}: `
    throw refusal(what, `${at}${problem}`)
  }
  const count = (node: Node, weight: number): void => {
    total += weight
    if (total > limits.maxValues) fail(node, `its aliases expand to more than ${limits.maxValues} values`)
  }

  function read(node: Node, depth: number): Made {
    if (depth > limits.maxDepth) fail(node, `it is nested deeper than ${limits.maxDepth}`)
    if (isAlias(node)) return follow(node, node.source)
    const anchor = 'anchor' in node ? node.anchor : undefined
    if (anchor !== undefined) anchors.set(anchor, 'open')
    count(node, 1)
    const made = readPlain(node, depth)
    if (anchor !== undefined) anchors.set(anchor, made)
    return made
  }

  function follow(node: Node, name: string): Made {
    const made = anchors.get(name) ?? fail(node, `*${name} is not defined before`)
    if (made === 'open') return fail(node, `*${name} contains itself`)
    count(node, made.weight)
    return made
  }

  function readPlain(node: Node, depth: number): Made {
    if (isScalar(node)) return { value: limits.scalars === 'typed' ? typedValue(node) : scalarValue(node), weight: 1 }
    if (isMap(node)) return readMap(node, depth)
    if (!isSeq(node)) return fail(node, 'it contains something other than values, lists and mappings')
    const items = node.items.map((item) => read(item as Node, depth + 1))
    return { value: items.map((item) => item.value), weight: sum(items) }
  }

  function readMap(node: YAMLMap, depth: number): Made {
    const own = new Map<string, Made>()
    const merged: Made[] = []
    for (const { key, value } of node.items) {
      if (!isScalar(key)) return fail(node, 'keys must be plain strings')
      const made = value === null ? { value: null, weight: 1 } : read(value as Node, depth + 1)
      if (isMergeKey(key)) merged.push(made)
      else {
        const name = scalarValue(key) ?? ''
        if (own.has(name)) return fail(key, `duplicate key ${JSON.stringify(name)}`)
        own.set(name, made)
      }
    }
    return withMerged(node, own, merged)
  }

  /** Own keys win over merged ones, earlier merges over later ones. */
  function withMerged(node: Node, own: ReadonlyMap<string, Made>, merged: readonly Made[]): Made {
    const all = new Map([...own].map(([key, made]) => [key, made.value]))
    for (const value of merged.flatMap((each) => (Array.isArray(each.value) ? (each.value as YamlValue[]) : [each.value]))) {
      if (!isObject(value)) return fail(node, 'a merge key (<<) takes a mapping or a list of mappings')
      for (const [key, inherited] of Object.entries(value)) if (!all.has(key)) all.set(key, inherited)
    }
    // No prototype: a key may be called __proto__.
    const value = Object.assign(Object.create(null) as Record<string, YamlValue>, Object.fromEntries(all))
    return { value, weight: sum([...own.values(), ...merged]) }
  }

  return { read }
}

const sum = (made: readonly Made[]): number => made.reduce((weight, each) => weight + each.weight, 1)

const isMergeKey = (key: Scalar): boolean =>
  typeof key.value === 'symbol' || (key.value === '<<' && (key.type === undefined || key.type === Scalar.PLAIN))

export const isObject = (value: unknown): value is YamlObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Values without a JSON form stay text. */
function typedValue(node: Scalar): YamlValue {
  const { value } = node
  return typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)) ? value : scalarValue(node)
}

function scalarValue(node: Scalar): string | null {
  if (node.value === null || node.value === undefined) return null
  return typeof node.value === 'string' ? node.value : (node.source ?? '')
}

function refusal(what: string, problem: string, options?: ErrorOptions): FleetError {
  return new FleetError({ code: 'invalid', retry: 'never', message: `cannot read ${what}: ${problem}` }, options)
}
