// Reads the subset of Go's text/template that LocalAI's model files use: texts, fields, if, range, variables and a few functions.
// A template with anything else is refused by the name of the function. Nothing is evaluated here; see render-template.pure.ts.
import { errorAt, splitTemplate, templateError, type TemplatePart, type Token } from './go-template-tokens.pure.ts'

export type Template = Readonly<{ nodes: readonly TemplateNode[] }>
export type TemplateNode = Readonly<
  | { kind: 'text'; text: string }
  | { kind: 'print'; pipe: Pipe }
  | { kind: 'assign'; name: string; isNew: boolean; pipe: Pipe }
  | { kind: 'if'; pipe: Pipe; name: string | null; body: readonly TemplateNode[]; otherwise: readonly TemplateNode[] }
  | { kind: 'range'; pipe: Pipe; names: RangeNames; body: readonly TemplateNode[]; otherwise: readonly TemplateNode[] }
>
export type RangeNames = Readonly<{ key: string | null; value: string | null }>
/** The result of each command is the last argument of the next. */
export type Pipe = readonly Command[]
export type Command = Readonly<{ kind: 'call'; name: FunctionName; args: readonly Operand[] } | { kind: 'value'; operand: Operand }>
export type Operand = Readonly<{ from: OperandSource; path: readonly string[] }>
type OperandSource = Readonly<
  | { kind: 'dot' }
  | { kind: 'variable'; name: string }
  | { kind: 'literal'; value: string | number | boolean | null }
  | { kind: 'pipe'; pipe: Pipe }
>

const functionNames = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'not', 'and', 'or', 'toJson', 'index', 'print', 'len'] as const
export type FunctionName = (typeof functionNames)[number]
const isFunction = (name: string): name is FunctionName => (functionNames as readonly string[]).includes(name)

const deepest = 64

/** Throws FleetError `invalid`. */
export function parseTemplate(text: string): Template {
  const reader: Reader = { parts: splitTemplate(text), at: 0, variables: ['$'] }
  const { nodes, end } = readNodes(reader, 0)
  if (end !== null) throw errorAt(end.line, `unexpected {{${end.word}}}`)
  return { nodes }
}

type Reader = { readonly parts: readonly TemplatePart[]; at: number; variables: string[] }
/** The action that ends a list of nodes; `rest`: the tokens after the word. */
type End = Readonly<{ word: 'end' | 'else'; rest: Tokens; line: number }>

function readNodes(reader: Reader, depth: number): { nodes: TemplateNode[]; end: End | null } {
  if (depth > deepest) throw templateError(`the template has more than ${deepest} actions inside each other`)
  const nodes: TemplateNode[] = []
  for (;;) {
    const part = reader.parts[reader.at]
    if (part === undefined) return { nodes, end: null }
    reader.at += 1
    if (part.kind === 'text') {
      nodes.push(part)
      continue
    }
    const tokens = new Tokens(part.tokens, part.line, reader)
    const word = tokens.takeKeyword()
    if (word === 'end' || word === 'else') return { nodes, end: { word, rest: tokens, line: part.line } }
    nodes.push(word === 'if' ? readIf(reader, tokens, depth) : word === 'range' ? readRange(reader, tokens, depth) : tokens.readAction())
  }
}

function readIf(reader: Reader, tokens: Tokens, depth: number): TemplateNode {
  const scope = reader.variables.length
  const name = tokens.takeDeclaration()
  const pipe = tokens.readLastPipe()
  if (name !== null) reader.variables.push(name)
  const body = readNodes(reader, depth + 1)
  const otherwise = readOtherwise(reader, body.end, { depth, line: tokens.line, word: 'if' })
  reader.variables.length = scope
  return { kind: 'if', pipe, name, body: body.nodes, otherwise }
}

function readRange(reader: Reader, tokens: Tokens, depth: number): TemplateNode {
  const scope = reader.variables.length
  const names = tokens.takeRangeNames()
  const pipe = tokens.readLastPipe()
  reader.variables.push(...[names.key, names.value].filter((name) => name !== null))
  const body = readNodes(reader, depth + 1)
  reader.variables.length = scope
  const otherwise = readOtherwise(reader, body.end, { depth, line: tokens.line, word: 'range' })
  return { kind: 'range', pipe, names, body: body.nodes, otherwise }
}

type Opened = Readonly<{ depth: number; line: number; word: 'if' | 'range' }>

function readOtherwise(reader: Reader, end: End | null, { depth, line, word }: Opened): readonly TemplateNode[] {
  if (end === null) throw errorAt(line, `{{${word}}} is not closed; expected {{end}}`)
  if (end.word === 'end') {
    end.rest.expectEnd()
    return []
  }
  if (word === 'if' && end.rest.takeKeyword() === 'if') return [readIf(reader, end.rest, depth + 1)]
  end.rest.expectEnd()
  const { nodes, end: last } = readNodes(reader, depth + 1)
  if (last?.word !== 'end') throw errorAt(line, `{{${word}}} is not closed; expected {{end}}`)
  last.rest.expectEnd()
  return nodes
}

const keywords = ['if', 'else', 'end', 'range'] as const
type Keyword = (typeof keywords)[number]

/** The tokens of one action, with the place of the next. */
class Tokens {
  readonly line: number
  readonly #tokens: readonly Token[]
  readonly #reader: Reader
  #at = 0

  constructor(tokens: readonly Token[], line: number, reader: Reader) {
    this.#tokens = tokens
    this.line = line
    this.#reader = reader
  }

  takeKeyword(): Keyword | null {
    const token = this.#tokens[this.#at]
    const word = token?.kind === 'word' ? keywords.find((each) => each === token.text) : undefined
    if (word === undefined) return null
    this.#at += 1
    return word
  }

  expectEnd(): void {
    const token = this.#tokens[this.#at]
    if (token !== undefined) throw this.#error(`unexpected ${token.text}`)
  }

  readAction(): TemplateNode {
    const [first, second] = [this.#tokens[this.#at], this.#tokens[this.#at + 1]]
    if (first?.kind !== 'variable' || second?.kind !== 'sign' || (second.text !== ':=' && second.text !== '=')) {
      return { kind: 'print', pipe: this.readLastPipe() }
    }
    const isNew = second.text === ':='
    if (!isNew) this.#checkVariable(first.text)
    this.#at += 2
    const pipe = this.readLastPipe()
    if (isNew) this.#reader.variables.push(first.text)
    return { kind: 'assign', name: first.text, isNew, pipe }
  }

  /** `$x :=`, or null. */
  takeDeclaration(): string | null {
    const [first, second] = [this.#tokens[this.#at], this.#tokens[this.#at + 1]]
    if (first?.kind !== 'variable' || second?.text !== ':=') return null
    this.#at += 2
    return first.text
  }

  takeRangeNames(): RangeNames {
    const [first, second, third] = this.#tokens.slice(this.#at, this.#at + 3)
    if (first?.kind !== 'variable' || second?.text !== ',' || third?.kind !== 'variable')
      return { key: null, value: this.takeDeclaration() }
    this.#at += 2
    const value = this.takeDeclaration()
    if (value === null) throw this.#error('expected := after the variables of range')
    return { key: first.text, value }
  }

  readLastPipe(): Pipe {
    const pipe = this.#readPipe(0)
    this.expectEnd()
    return pipe
  }

  #readPipe(depth: number): Pipe {
    if (depth > deepest) throw this.#error('too many parentheses inside each other')
    const commands: Command[] = []
    do {
      const operandsAt = this.#at
      const name = this.#takeFunction()
      const args: Operand[] = []
      for (let operand = this.#readOperand(depth); operand !== null; operand = this.#readOperand(depth)) args.push(operand)
      const [only] = args
      if (name !== null) commands.push({ kind: 'call', name, args })
      else if (only !== undefined && args.length === 1 && commands.length === 0) commands.push({ kind: 'value', operand: only })
      else throw this.#error(this.#at === operandsAt ? 'a value is missing' : 'only a function takes arguments')
    } while (this.#takeSign('|'))
    return commands
  }

  #takeFunction(): FunctionName | null {
    const token = this.#tokens[this.#at]
    if (token?.kind !== 'word' || constants.has(token.text)) return null
    if (!isFunction(token.text)) throw unknownFunction(token.text)
    this.#at += 1
    return token.text
  }

  #readOperand(depth: number): Operand | null {
    // `.A` is the field A of dot, and may follow white space; further fields may not.
    const isField = this.#tokens[this.#at]?.kind === 'field'
    const path = isField ? [this.#takeField()] : []
    const from: OperandSource | null = isField ? { kind: 'dot' } : this.#readSource(depth)
    if (from === null) return null
    for (let next = this.#tokens[this.#at]; next?.kind === 'field' && next.isNext; next = this.#tokens[this.#at])
      path.push(this.#takeField())
    return { from, path }
  }

  #takeField(): string {
    const name = this.#tokens[this.#at]?.text.slice(1) ?? ''
    this.#at += 1
    return name
  }

  #readSource(depth: number): OperandSource | null {
    const token = this.#tokens[this.#at]
    if (token === undefined) return null
    const source = this.#sourceOf(token)
    if (source !== null) {
      this.#at += 1
      return source
    }
    if (!this.#takeSign('(')) return null
    const pipe = this.#readPipe(depth + 1)
    if (!this.#takeSign(')')) throw this.#error('expected )')
    return { kind: 'pipe', pipe }
  }

  #sourceOf({ kind, text }: Token): OperandSource | null {
    switch (kind) {
      case 'dot':
        return { kind: 'dot' }
      case 'string':
        return { kind: 'literal', value: text.startsWith('`') ? text.slice(1, -1).replaceAll('\r', '') : unquote(text) }
      case 'number':
        return { kind: 'literal', value: Number(text) }
      case 'variable':
        this.#checkVariable(text)
        return { kind: 'variable', name: text }
      case 'word':
        if (isFunction(text)) throw this.#error(`put ${text} and its arguments into parentheses`)
        if (!constants.has(text)) throw unknownFunction(text)
        return { kind: 'literal', value: constants.get(text) ?? null }
      case 'sign':
      case 'field':
      default:
        return null
    }
  }

  #checkVariable(name: string): void {
    if (!this.#reader.variables.includes(name)) throw this.#error(`the variable ${name} is not defined`)
  }

  #takeSign(sign: string): boolean {
    const token = this.#tokens[this.#at]
    if (token?.kind !== 'sign' || token.text !== sign) return false
    this.#at += 1
    return true
  }

  #error(message: string): Error {
    return errorAt(this.line, message)
  }
}

const constants: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['nil', null],
])

const unknownFunction = (name: string): Error =>
  templateError(
    `the template uses ${name.slice(0, 64)}, which is not known here; with a GGUF model leave "template" out and its own is used`,
  )

const escapes: Readonly<Record<string, string>> = { a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }

/** `\\x` has two digits, `\\u` four and `\\U` eight. */
const hexEscape = /\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))/
const unquote = (quoted: string): string =>
  quoted.slice(1, -1).replaceAll(/\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)/gs, (escape) => {
    const [, two, four, eight] = hexEscape.exec(escape) ?? []
    const code = two ?? four ?? eight
    const letter = escape.slice(1)
    return code === undefined ? (escapes[letter] ?? letter) : codePoint(Number.parseInt(code, 16))
  })

const codePoint = (code: number): string => (code > 0x10_ff_ff ? '\ufffd' : String.fromCodePoint(code))
