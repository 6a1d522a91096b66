// Parses a regular expression of Go (RE2) and compiles it to the instructions that go-regex.pure.ts runs.
import { FleetError } from '@muster/protocol'

export type Instruction = Readonly<
  | { kind: 'character'; accepts: (code: number) => boolean }
  | { kind: 'assert'; holds: (text: string, at: number) => boolean }
  | { kind: 'save'; slot: number }
  | { kind: 'split'; first: number; other: number }
  | { kind: 'jump'; to: number }
  | { kind: 'match' }
>

type Accepts = (code: number) => boolean
type Flags = Readonly<{ i: boolean; s: boolean; m: boolean; U: boolean }>
/** Emits its instructions at the end of the program. */
type Fragment = (program: Instruction[]) => void

const largestSource = 4096
const largestProgram = 10_000
const deepest = 64
const mostRepeats = 1000

/** Throws FleetError `invalid`. */
export function parseRegex(source: string): { program: readonly Instruction[]; names: readonly (string | null)[] } {
  if (source.length > largestSource) throw invalid(`a regular expression has more than ${largestSource} characters`)
  const parser = new Parser(source)
  const body = parser.readAll()
  const program: Instruction[] = []
  group(0, body)(program)
  program.push({ kind: 'match' })
  return { program, names: parser.names }
}

const invalid = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

class Parser {
  readonly names: (string | null)[] = [null]
  readonly #source: string
  #at = 0
  #flags: Flags = { i: false, s: false, m: false, U: false }

  constructor(source: string) {
    this.#source = source
  }

  readAll(): Fragment {
    const body = this.#readAlternatives(0)
    if (this.#at < this.#source.length) throw this.#error('an unexpected )')
    return body
  }

  #readAlternatives(depth: number): Fragment {
    if (depth > deepest) throw this.#error('too many groups inside each other')
    // Flags of a group end with it.
    const flags = this.#flags
    const alternatives = [this.#readSequence(depth)]
    while (this.#take('|')) alternatives.push(this.#readSequence(depth))
    this.#flags = flags
    return alternatives.reduceRight((rest, first) => choose(first, rest))
  }

  #readSequence(depth: number): Fragment {
    const items: Fragment[] = []
    while (this.#at < this.#source.length && !this.#sees('|') && !this.#sees(')')) {
      const item = this.#readItem(depth)
      if (item !== null) items.push(this.#readRepeats(item))
    }
    return (program) => items.forEach((item) => item(program))
  }

  /** Null: flags, which match nothing. */
  #readItem(depth: number): Fragment | null {
    if (this.#take('(')) return this.#readGroup(depth)
    const { m, s } = this.#flags
    if (this.#take('^')) return assert(m ? isLineStart : isStart)
    if (this.#take('$')) return assert(m ? isLineEnd : isEnd)
    if (this.#take('.')) return character(s ? () => true : (code) => code !== newline)
    if (this.#take('[')) return character(this.#withCase(this.#readClass()))
    if (this.#take('\\')) return this.#readEscape()
    if (/[*+?]/.test(this.#source[this.#at] ?? '')) throw this.#error('a repetition of nothing')
    return character(this.#withCase(is(this.#next())))
  }

  #readGroup(depth: number): Fragment | null {
    if (!this.#take('?')) return this.#readCapture(null, depth)
    const [named, , name] = /^(P?)<([A-Za-z_]\w*)>/.exec(this.#source.slice(this.#at)) ?? []
    if (named !== undefined && name !== undefined) {
      this.#at += named.length
      if (this.names.includes(name)) throw this.#error(`two groups of the name ${name}`)
      return this.#readCapture(name, depth)
    }
    const [flags, on = '', off = '', end] = /^([imsU]*)(?:-([imsU]+))?([:)])/.exec(this.#source.slice(this.#at)) ?? []
    if (flags === undefined) throw this.#error(`(?${this.#source.slice(this.#at, this.#at + 2)}`)
    this.#at += flags.length
    const before = this.#flags
    const changed = (flag: keyof Flags): boolean => (on.includes(flag) ? true : off.includes(flag) ? false : before[flag])
    this.#flags = { i: changed('i'), m: changed('m'), s: changed('s'), U: changed('U') }
    if (end === ')') return null
    const body = this.#readAlternatives(depth + 1)
    this.#close()
    this.#flags = before
    return body
  }

  #readCapture(name: string | null, depth: number): Fragment {
    const number = this.names.length
    this.names.push(name)
    const body = this.#readAlternatives(depth + 1)
    this.#close()
    return group(number, body)
  }

  #close(): void {
    if (!this.#take(')')) throw this.#error('a group that is not closed')
  }

  #readRepeats(item: Fragment): Fragment {
    const found = /^(?:[*+?]|\{(\d+)(,)?(\d+)?\})/.exec(this.#source.slice(this.#at, this.#at + 16))
    if (found === null) return item
    const [sign, least, comma, most] = found
    this.#at += sign.length
    const isLazy = this.#take('?') !== this.#flags.U
    if (/^[*+]|^\{\d/.test(this.#source.slice(this.#at))) throw this.#error('a repetition of a repetition')
    if (least === undefined) return repeat(item, { least: sign === '+' ? 1 : 0, most: sign === '?' ? 1 : Infinity, isLazy })
    const range = { least: Number(least), most: comma === undefined ? Number(least) : most === undefined ? Infinity : Number(most) }
    if (range.least > mostRepeats || (range.most !== Infinity && (range.most > mostRepeats || range.most < range.least)))
      throw this.#error(sign)
    return repeat(item, { ...range, isLazy })
  }

  #readEscape(): Fragment {
    const letter = this.#source[this.#at] ?? ''
    if (letter === 'b' || letter === 'B') {
      this.#at += 1
      return assert((text, at) => isWordEdge(text, at) === (letter === 'b'))
    }
    if (letter === 'A' || letter === 'z') {
      this.#at += 1
      return assert(letter === 'A' ? isStart : isEnd)
    }
    const escaped = this.#readEscaped()
    return character(this.#withCase(typeof escaped === 'string' ? is(escaped) : escaped))
  }

  /** After the backslash: a class, or one character. */
  #readEscaped(): string | Accepts {
    const letter = this.#next()
    const known = classes[letter] ?? controls[letter]
    if (known !== undefined) return known
    if (letter === 'x') return this.#readHex()
    if (letter === '' || /[A-Za-z0-9]/.test(letter)) throw this.#error(`\\${letter}`)
    return letter
  }

  #readHex(): string {
    const [found, braced, two] = /^(?:\{([0-9a-fA-F]{1,4})\}|([0-9a-fA-F]{2}))/.exec(this.#source.slice(this.#at)) ?? []
    if (found === undefined) throw this.#error('\\x')
    this.#at += found.length
    return String.fromCharCode(Number.parseInt(braced ?? two ?? '', 16))
  }

  #readClass(): Accepts {
    const isNegated = this.#take('^')
    const parts: Accepts[] = []
    for (let isFirst = true; isFirst || !this.#sees(']'); isFirst = false) {
      if (this.#at >= this.#source.length) throw this.#error('a class that is not closed')
      parts.push(this.#readClassPart())
    }
    this.#at += 1
    return (code) => parts.some((accepts) => accepts(code)) !== isNegated
  }

  #readClassPart(): Accepts {
    if (this.#source.startsWith('[:', this.#at)) throw this.#error(this.#source.slice(this.#at, this.#at + 10))
    const first = this.#readClassAtom()
    const isRange = this.#sees('-') && this.#at + 1 < this.#source.length && this.#source[this.#at + 1] !== ']'
    if (typeof first !== 'string' || !isRange) return typeof first === 'string' ? is(first) : first
    this.#at += 1
    const last = this.#readClassAtom()
    if (typeof last !== 'string' || last < first) throw this.#error('a range of a class without a last character')
    const [low, high] = [first.charCodeAt(0), last.charCodeAt(0)]
    return (code) => code >= low && code <= high
  }

  #readClassAtom(): string | Accepts {
    return this.#take('\\') ? this.#readEscaped() : this.#next()
  }

  #withCase(accepts: Accepts): Accepts {
    if (!this.#flags.i) return accepts
    return (code) => {
      const text = String.fromCharCode(code)
      return accepts(code) || accepts(text.toLowerCase().charCodeAt(0)) || accepts(text.toUpperCase().charCodeAt(0))
    }
  }

  #sees(sign: string): boolean {
    return this.#source[this.#at] === sign
  }

  #take(sign: string): boolean {
    if (!this.#sees(sign)) return false
    this.#at += 1
    return true
  }

  #next(): string {
    const letter = this.#source[this.#at] ?? ''
    this.#at += 1
    return letter
  }

  #error(what: string): FleetError {
    return invalid(`the regular expression ${JSON.stringify(this.#source.slice(0, 200))} has ${what}, which is not supported`)
  }
}

const newline = 10
const is = (letter: string): Accepts => {
  const wanted = letter.charCodeAt(0)
  return (code) => code === wanted
}
const oneOf = (letters: string): Accepts => {
  const wanted = new Set(letters.split('').map((letter) => letter.charCodeAt(0)))
  return (code) => wanted.has(code)
}
const not =
  (accepts: Accepts): Accepts =>
  (code) =>
    !accepts(code)
const isDigit = (code: number): boolean => code >= 48 && code <= 57
const isWord = (code: number): boolean => isDigit(code) || code === 95 || (code >= 65 && code <= 90) || (code >= 97 && code <= 122)
const isBlank = oneOf('\t\n\f\r ')

const classes: Readonly<Record<string, Accepts | undefined>> = {
  d: isDigit,
  D: not(isDigit),
  w: isWord,
  W: not(isWord),
  s: isBlank,
  S: not(isBlank),
}
const controls: Readonly<Record<string, string | undefined>> = { a: '\x07', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }

const isStart = (_: string, at: number): boolean => at === 0
const isEnd = (text: string, at: number): boolean => at === text.length
const isLineStart = (text: string, at: number): boolean => at === 0 || text.charCodeAt(at - 1) === newline
const isLineEnd = (text: string, at: number): boolean => at === text.length || text.charCodeAt(at) === newline
const isWordEdge = (text: string, at: number): boolean => isWord(text.charCodeAt(at - 1)) !== isWord(text.charCodeAt(at))

const character =
  (accepts: Accepts): Fragment =>
  (program) =>
    emit(program, { kind: 'character', accepts })

const assert =
  (holds: (text: string, at: number) => boolean): Fragment =>
  (program) =>
    emit(program, { kind: 'assert', holds })

const group =
  (number: number, body: Fragment): Fragment =>
  (program) => {
    emit(program, { kind: 'save', slot: 2 * number })
    body(program)
    emit(program, { kind: 'save', slot: 2 * number + 1 })
  }

const choose =
  (first: Fragment, other: Fragment): Fragment =>
  (program) => {
    const split = reserve(program)
    first(program)
    const jump = reserve(program)
    program[split] = { kind: 'split', first: split + 1, other: program.length }
    other(program)
    program[jump] = { kind: 'jump', to: program.length }
  }

function repeat(item: Fragment, { least, most, isLazy }: { least: number; most: number; isLazy: boolean }): Fragment {
  const splitTo = (body: number, end: number): Instruction =>
    isLazy ? { kind: 'split', first: end, other: body } : { kind: 'split', first: body, other: end }
  return (program) => {
    for (let times = 0; times < least; times += 1) item(program)
    if (most === Infinity) {
      const split = reserve(program)
      item(program)
      emit(program, { kind: 'jump', to: split })
      program[split] = splitTo(split + 1, program.length)
      return
    }
    const splits: number[] = []
    for (let times = least; times < most; times += 1) {
      splits.push(reserve(program))
      item(program)
    }
    for (const split of splits) program[split] = splitTo(split + 1, program.length)
  }
}

function reserve(program: Instruction[]): number {
  emit(program, { kind: 'match' })
  return program.length - 1
}

function emit(program: Instruction[], instruction: Instruction): void {
  if (program.length >= largestProgram) throw invalid('a regular expression of the model is too large')
  program.push(instruction)
}
