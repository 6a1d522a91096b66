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

/** An item of a list: its value, or the reason why it has none. `name`: the item's own key of that name. */
export type YamlItem = Readonly<{ value: YamlValue } | { problem: string; name: string }>

/** Core schema with merge keys. `what` is the subject of errors. */
export function readYaml(text: string, what: string, limits: YamlLimits): YamlValue {
  const { document, lines } = compose(text, what, limits)
  const [warning] = document.warnings
  if (warning !== undefined) throw refusal(what, explain(warning.message))
  return document.contents === null ? null : createReader({ what, limits, lines }).read(document.contents, 0).value
}

/**
 * The items of a list. An unreadable item (a duplicate key, an unknown tag, deep nesting) does not affect the others. Null for
 * text that is not a list. Throws for text that is not YAML, or beyond a limit of the whole.
 */
export function readYamlList(text: string, what: string, limits: YamlLimits): YamlItem[] | null {
  const { document, lines } = compose(text, what, limits)
  if (!isSeq(document.contents)) {
    const [warning] = document.warnings
    if (warning !== undefined) throw refusal(what, explain(warning.message))
    return null
  }
  const reader = createReader({ what, limits, lines })
  let warned = 0
  return document.contents.items.map((item): YamlItem => {
    const node = item as Node
    const end = node.range?.[2] ?? 0
    // Warnings are in the order of the text.
    const first = document.warnings[warned]
    while ((document.warnings[warned]?.pos[0] ?? Infinity) < end) warned++
    const read = readItem(reader, node)
    return first !== undefined && first.pos[0] < end ? { problem: explain(first.message), name: nameOf(node) } : read
  })
}

type Composed = Readonly<{ document: Document.Parsed; lines: LineCounter }>

function compose(text: string, what: string, { maxBytes }: YamlLimits): Composed {
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) throw refusal(what, `it has ${bytes} bytes; at most ${maxBytes} are read`)
  const composed = parse(text, what)
  const { errors } = composed.document
  const [problem] = errors
  if (problem === undefined) return composed
  if (!errors.every(({ code, pos: [at] }) => code === 'BAD_DQ_ESCAPE' && text.startsWith(lenientEscape, at)))
    throw refusal(what, explain(problem.message))
  const starts = new Set(errors.map(({ pos: [at] }) => at))
  const repaired = parse(without(text, starts), what)
  const [left] = repaired.document.errors
  if (left !== undefined) throw refusal(what, explain(left.message))
  return repaired
}

/** YAML does not have this escape, but Go's parser reads it as an apostrophe, and files are written for it. */
const lenientEscape = "\\'"

const without = (text: string, positions: ReadonlySet<number>): string =>
  text.replaceAll(lenientEscape, (found, at: number) => (positions.has(at) ? found.slice(1) : found))

function parse(text: string, what: string): Composed {
  const lines = new LineCounter()
  // Duplicate keys are found below: the library compares every key with every other.
  const options = { schema: 'core', merge: true, uniqueKeys: false, resolveKnownTags: false, logLevel: 'error' } as const
  try {
    return { document: parseDocument(text, { ...options, lineCounter: lines }), lines }
  } catch (error) {
    throw refusal(what, explain(errorMessage(error)), { cause: error })
  }
}

/** The first line of the library's message; too deep nesting overflows its stack. */
const explain = (message: string): string =>
  message.includes('call stack') ? 'it is nested too deeply' : (message.split('\n')[0] ?? '').slice(0, 300)

function createReader({ what, limits, lines }: { what: string; limits: YamlLimits; lines: LineCounter }) {
  const anchors = createAnchors()
  let total = 0

  const placed = (node: Node, problem: string): string =>
    node.range === null || node.range === undefined ? problem : `line ${lines.linePos(node.range[0]).line}: ${problem}`
  const fail = (node: Node, problem: string): never => {
    throw new UnreadableValue(placed(node, problem), what)
  }
  const count = (node: Node, weight: number): void => {
    total += weight
    // Concerns the text as a whole, so the other items of a list are not read either.
    if (total > limits.maxValues) throw refusal(what, placed(node, `its aliases expand to more than ${limits.maxValues} values`))
  }

  function read(node: Node, depth: number): Made {
    if (depth > limits.maxDepth) fail(node, `it is nested deeper than ${limits.maxDepth}`)
    if (isAlias(node)) return follow(node, node.source)
    const anchor = 'anchor' in node ? node.anchor : undefined
    if (anchor !== undefined) anchors.begin(anchor)
    count(node, 1)
    const made = readPlain(node, depth)
    if (anchor !== undefined) anchors.end(anchor, made)
    return made
  }

  function follow(node: Node, name: string): Made {
    const made = anchors.find(name)
    if (typeof made === 'string') return fail(node, `*${name} ${made}`)
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
    const value = mergeMaps(own, merged)
    if (value === null) return fail(node, 'a merge key (<<) takes a mapping or a list of mappings')
    return { value, weight: sum([...own.values(), ...merged]) }
  }

  return { read, abandonAnchors: anchors.abandon }
}

function readItem({ read, abandonAnchors }: ReturnType<typeof createReader>, node: Node): YamlItem {
  try {
    return { value: read(node, 1).value }
  } catch (error) {
    if (!(error instanceof UnreadableValue)) throw error
    abandonAnchors()
    return { problem: error.problem, name: nameOf(node) }
  }
}

/** Own keys win over merged ones, earlier merges over later ones. Null when something else than mappings is merged. */
function mergeMaps(own: ReadonlyMap<string, Made>, merged: readonly Made[]): YamlObject | null {
  const all = new Map([...own].map(([key, made]) => [key, made.value]))
  for (const value of merged.flatMap((each) => (Array.isArray(each.value) ? (each.value as YamlValue[]) : [each.value]))) {
    if (!isObject(value)) return null
    for (const [key, inherited] of Object.entries(value)) if (!all.has(key)) all.set(key, inherited)
  }
  // No prototype: a key may be called __proto__.
  return Object.assign(Object.create(null) as Record<string, YamlValue>, Object.fromEntries(all))
}

/** Anchors by name; text instead of a value says why there is none. */
function createAnchors() {
  const anchors = new Map<string, Made | string>()
  const open = new Set<string>()
  return {
    begin(name: string): void {
      anchors.set(name, 'contains itself')
      open.add(name)
    },
    end(name: string, made: Made): void {
      anchors.set(name, made)
      open.delete(name)
    },
    /** The values of open anchors are not read to their end. */
    abandon(): void {
      for (const name of open) anchors.set(name, 'is part of an entry that cannot be read')
      open.clear()
    },
    find: (name: string): Made | string => anchors.get(name) ?? 'is not defined before',
  }
}

function nameOf(node: Node): string {
  const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && key.value === 'name') : undefined
  return isScalar(pair?.value) && typeof pair.value.value === 'string' ? pair.value.value : ''
}

/** A value that cannot be read, in a text that otherwise can. */
class UnreadableValue extends FleetError {
  readonly problem: string

  constructor(problem: string, what: string) {
    super({ code: 'invalid', retry: 'never', message: `cannot read ${what}: ${problem}` })
    this.problem = problem
  }
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
