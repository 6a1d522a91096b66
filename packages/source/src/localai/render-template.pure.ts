// Renders a template that go-template.pure.ts read, as Go does: an unknown field, an index into the wrong kind of value or a comparison
// of different kinds is an error. Bounded in steps, depth and output.
import { FleetError, unreachable } from '@muster/protocol'
import type { Command, FunctionName, Operand, Pipe, Template, TemplateNode } from './go-template.pure.ts'

/** The fields of the outermost value. A missing one is an error. */
export type TemplateData = Readonly<Record<string, unknown>>

/** A value with fixed fields and a form of its own in JSON. Plain objects are maps: a missing key is no value, and JSON sorts them. */
export class TemplateStruct {
  readonly fields: TemplateData
  readonly json: readonly (readonly [string, unknown])[]
  constructor(fields: TemplateData, json: TemplateStruct['json']) {
    this.fields = fields
    this.json = json
  }
}

const mostSteps = 1_000_000
const largestOutput = 32 * 1024 * 1024
const deepestValue = 200

/** Throws FleetError `invalid`. */
export function renderTemplate(template: Template, data: TemplateData): string {
  const root = new TemplateStruct(data, [])
  const run: Run = { output: [], length: 0, steps: 0, variables: [{ name: '$', value: root }] }
  renderNodes(template.nodes, root, run)
  return run.output.join('')
}

type Run = { readonly output: string[]; length: number; steps: number; variables: { readonly name: string; value: unknown }[] }

function renderNodes(nodes: readonly TemplateNode[], dot: unknown, run: Run): void {
  for (const node of nodes) {
    countStep(run)
    switch (node.kind) {
      case 'text':
        write(run, node.text)
        break
      case 'print':
        write(run, printed(evaluatePipe(node.pipe, dot, run)))
        break
      case 'assign':
        assign(run, node, evaluatePipe(node.pipe, dot, run))
        break
      case 'if':
        inScope(run, () => {
          const value = evaluatePipe(node.pipe, dot, run)
          if (node.name !== null) run.variables.push({ name: node.name, value })
          renderNodes(isTrue(value) ? node.body : node.otherwise, dot, run)
        })
        break
      case 'range':
        renderRange(node, dot, run)
        break
      default:
        unreachable(node)
    }
  }
}

function renderRange({ pipe, names, body, otherwise }: Extract<TemplateNode, { kind: 'range' }>, dot: unknown, run: Run): void {
  const entries = entriesOf(evaluatePipe(pipe, dot, run))
  if (entries.length === 0) renderNodes(otherwise, dot, run)
  for (const [key, value] of entries) {
    countStep(run)
    inScope(run, () => {
      if (names.key !== null) run.variables.push({ name: names.key, value: key })
      if (names.value !== null) run.variables.push({ name: names.value, value })
      renderNodes(body, value, run)
    })
  }
}

function entriesOf(value: unknown): (readonly [unknown, unknown])[] {
  if (value === null || value === undefined) return []
  if (Array.isArray(value)) return [...value.entries()]
  if (isMap(value)) return sortedEntries(value)
  throw broken(`range cannot iterate over ${kindOf(value)}`)
}

function inScope(run: Run, work: () => void): void {
  const { length } = run.variables
  work()
  run.variables.length = length
}

function assign(run: Run, { name, isNew }: { name: string; isNew: boolean }, value: unknown): void {
  const known = isNew ? undefined : run.variables.findLast((each) => each.name === name)
  if (known === undefined) run.variables.push({ name, value })
  else known.value = value
}

function countStep(run: Run): void {
  run.steps += 1
  if (run.steps > mostSteps) throw broken('it takes too many steps')
}

function write(run: Run, text: string): void {
  run.length += text.length
  if (run.length > largestOutput) throw broken(`its text has more than ${largestOutput} characters`)
  run.output.push(text)
}

const broken = (message: string): FleetError =>
  new FleetError({ code: 'invalid', retry: 'never', message: `cannot render the template: ${message}` })

function evaluatePipe(pipe: Pipe, dot: unknown, run: Run): unknown {
  let value: unknown
  for (const [at, command] of pipe.entries()) value = evaluateCommand(command, at === 0 ? [] : [value], { dot, run })
  return value
}

type Scope = Readonly<{ dot: unknown; run: Run }>

function evaluateCommand(command: Command, piped: readonly unknown[], scope: Scope): unknown {
  countStep(scope.run)
  if (command.kind === 'value') return evaluate(command.operand, scope)
  const { name, args } = command
  if (name === 'and' || name === 'or') return evaluateLogic(name === 'or', args, { piped, scope })
  return call(name, [...args.map((arg) => evaluate(arg, scope)), ...piped])
}

/** The first argument that decides, or the last; arguments after it are not evaluated. */
function evaluateLogic(decides: boolean, args: readonly Operand[], { piped, scope }: { piped: readonly unknown[]; scope: Scope }): unknown {
  let value: unknown
  for (const arg of args) {
    value = evaluate(arg, scope)
    if (isTrue(value) === decides) return value
  }
  return piped.length === 0 ? value : piped[0]
}

function evaluate({ from, path }: Operand, scope: Scope): unknown {
  return path.reduce<unknown>(fieldOf, sourceOf(from, scope))
}

function sourceOf(from: Operand['from'], { dot, run }: Scope): unknown {
  switch (from.kind) {
    case 'dot':
      return dot
    case 'variable':
      return run.variables.findLast(({ name }) => name === from.name)?.value
    case 'literal':
      return from.value
    case 'pipe':
      return evaluatePipe(from.pipe, dot, run)
    default:
      return unreachable(from)
  }
}

function fieldOf(value: unknown, name: string): unknown {
  if (value instanceof TemplateStruct) {
    if (Object.hasOwn(value.fields, name)) return value.fields[name]
    throw broken(`there is no field .${name}`)
  }
  if (isMap(value)) return Object.hasOwn(value, name) ? value[name] : undefined
  throw broken(`${kindOf(value)} has no field .${name}`)
}

function call(name: Exclude<FunctionName, 'and' | 'or'>, args: readonly unknown[]): unknown {
  const [first, second] = args
  const least = name === 'print' ? 0 : name === 'not' || name === 'len' || name === 'toJson' || name === 'index' ? 1 : 2
  if (args.length < least) throw broken(`${name} needs ${least === 1 ? 'an argument' : 'two arguments'}`)
  switch (name) {
    case 'eq':
      return args.slice(1).some((other) => isEqual(first, other))
    case 'ne':
      return !isEqual(first, second)
    case 'lt':
      return compare(first, second) < 0
    case 'le':
      return compare(first, second) <= 0
    case 'gt':
      return compare(first, second) > 0
    case 'ge':
      return compare(first, second) >= 0
    case 'not':
      return !isTrue(first)
    case 'len':
      return lengthOf(first)
    case 'toJson':
      return jsonOf(first)
    case 'print':
      return joinPrinted(args)
    case 'index':
      return args.slice(1).reduce(elementOf, first)
    default:
      return unreachable(name)
  }
}

function isEqual(left: unknown, right: unknown): boolean {
  if ((left ?? null) === null || (right ?? null) === null) return (left ?? null) === (right ?? null)
  if (typeof left !== typeof right || typeof left === 'object') throw broken(`cannot compare ${kindOf(left)} with ${kindOf(right)}`)
  return left === right
}

function compare(left: unknown, right: unknown): number {
  if (typeof left === 'number' && typeof right === 'number') return left - right
  if (typeof left === 'string' && typeof right === 'string') return left === right ? 0 : left < right ? -1 : 1
  throw broken(`cannot compare ${kindOf(left)} with ${kindOf(right)}`)
}

/** Go counts the bytes of a text. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string') return new TextEncoder().encode(value).length
  if (Array.isArray(value)) return value.length
  if (isMap(value)) return Object.keys(value).length
  throw broken(`${kindOf(value)} has no length`)
}

function elementOf(value: unknown, key: unknown): unknown {
  if (Array.isArray(value) && typeof key === 'number') {
    if (Number.isInteger(key) && key >= 0 && key < value.length) return value[key]
    throw broken(`a list of ${value.length} has no element ${key}`)
  }
  if (isMap(value) && typeof key === 'string') return Object.hasOwn(value, key) ? value[key] : undefined
  throw broken(`${kindOf(value)} has no element ${JSON.stringify(key)}`)
}

function isTrue(value: unknown): boolean {
  if (value instanceof TemplateStruct) return true
  if (Array.isArray(value)) return value.length > 0
  if (isMap(value)) return Object.keys(value).length > 0
  return Boolean(value)
}

/** Go puts a space between two operands that are both no texts. */
const joinPrinted = (args: readonly unknown[]): string =>
  args.map((arg, at) => (at > 0 && typeof arg !== 'string' && typeof args[at - 1] !== 'string' ? ' ' : '') + printed(arg)).join('')

function printed(value: unknown, depth = 0): string {
  if (depth > deepestValue) throw broken('a value has too many levels')
  const inside = (each: unknown): string => printed(each, depth + 1)
  if (value === null || value === undefined) return depth === 0 ? '<no value>' : '<nil>'
  if (typeof value === 'number') return printedNumber(value)
  if (Array.isArray(value)) return `[${value.map(inside).join(' ')}]`
  if (value instanceof TemplateStruct) return `{${Object.values(value.fields).map(inside).join(' ')}}`
  if (isMap(value))
    return `map[${sortedEntries(value)
      .map(([key, each]) => `${key}:${inside(each)}`)
      .join(' ')}]`
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** As Go prints a number of a JSON document: with an exponent from 1e+06 on, and below 1e-04. */
function printedNumber(value: number): string {
  const [digits = '', exponent = ''] = value.toExponential().split('e')
  const power = Number(exponent)
  if (value === 0 || (power >= -4 && power < 6)) return String(value)
  return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
}

/** As Go's json.Marshal: keys of maps are sorted, and `<`, `>`, `&` are escaped. */
function jsonOf(value: unknown, depth = 0): string {
  if (depth > deepestValue) throw broken('a value has too many levels')
  const inside = (each: unknown): string => jsonOf(each, depth + 1)
  const pairs = (entries: readonly (readonly [string, unknown])[]): string =>
    `{${entries.map(([key, each]) => `${jsonText(key)}:${inside(each)}`).join(',')}}`
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'string') return jsonText(value)
  if (Array.isArray(value)) return `[${value.map(inside).join(',')}]`
  if (value instanceof TemplateStruct) return pairs(value.json)
  return isMap(value) ? pairs(sortedEntries(value)) : JSON.stringify(value)
}

const jsonText = (text: string): string =>
  JSON.stringify(text).replaceAll(/[<>&\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

const sortedEntries = (map: Readonly<Record<string, unknown>>): [string, unknown][] =>
  Object.entries(map).toSorted(([left], [right]) => (left < right ? -1 : 1))

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof TemplateStruct)

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'no value'
  if (Array.isArray(value)) return 'a list'
  return typeof value === 'object' ? 'an object' : typeof value === 'string' ? 'a text' : `a ${typeof value}`
}
