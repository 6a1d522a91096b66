// Splits a Go template into texts and actions, and actions into tokens. Comments are left out and white space is trimmed here.
import { FleetError } from '@muster/protocol'

/** `isNext`: no white space before it, so that `.A.B` is one path and `.A .B` are two operands. */
export type Token = Readonly<{ kind: TokenKind; text: string; isNext: boolean }>
type TokenKind = 'string' | 'number' | 'field' | 'dot' | 'variable' | 'word' | 'sign'

export type TemplatePart = Readonly<{ kind: 'text'; text: string } | { kind: 'action'; tokens: readonly Token[]; line: number }>

const largestTemplate = 256 * 1024
const mostTokens = 20_000

/** Tried in this order at every place; none of them can match an empty text. */
const rules: readonly (readonly [TokenKind, RegExp])[] = [
  ['string', /"(?:[^"\\\n]|\\[^\n])*"|`[^`]*`/y],
  ['number', /[+-]?\d+(?:\.\d+)?/y],
  ['field', /\.[\p{L}_][\p{L}\p{N}_]*/uy],
  ['dot', /\./y],
  ['variable', /\$[\p{L}\p{N}_]*/uy],
  ['word', /[\p{L}_][\p{L}\p{N}_]*/uy],
  ['sign', /:=|[|(),=]/y],
]

export function splitTemplate(text: string): TemplatePart[] {
  if (text.length > largestTemplate) throw templateError(`the template has more than ${largestTemplate} characters`)
  const parts: TemplatePart[] = []
  let [at, line, tokens] = [0, 1, 0]
  let trimsStart = false
  for (;;) {
    const open = text.indexOf('{{', at)
    const plain = text.slice(at, open === -1 ? undefined : open)
    // Go wants a space after `{{-`. A number is the only other thing that may follow the dash.
    const trimsEnd = open !== -1 && text[open + 2] === '-' && !/\d/.test(text[open + 3] ?? '')
    const kept = trimEnd(trimsStart ? trimStart(plain) : plain, trimsEnd)
    if (kept !== '') parts.push({ kind: 'text', text: kept })
    if (open === -1) return parts
    line += countLines(plain)
    const action = readAction(text, open + (trimsEnd ? 3 : 2), line)
    if (action.tokens !== null) parts.push({ kind: 'action', tokens: action.tokens, line })
    tokens += action.tokens?.length ?? 0
    if (tokens > mostTokens) throw templateError(`the template has more than ${mostTokens} words and signs`)
    line += countLines(text.slice(open, action.end))
    at = action.end
    trimsStart = action.trimsNext
  }
}

export const templateError = (message: string): FleetError => new FleetError({ code: 'invalid', retry: 'never', message })

export const errorAt = (line: number, message: string): FleetError => templateError(`the template has an error in line ${line}: ${message}`)

/** Null tokens: a comment. */
type Action = Readonly<{ tokens: readonly Token[] | null; end: number; trimsNext: boolean }>

function readAction(text: string, from: number, line: number): Action {
  const start = skipSpace(text, from)
  if (text.startsWith('/*', start)) return readComment(text, start, line)
  const tokens: Token[] = []
  for (let at = from; ;) {
    const next = skipSpace(text, at)
    const end = closeAt(text, next, next > at)
    if (end !== null) return { tokens, ...end }
    if (next >= text.length) throw errorAt(line, 'an action is not closed; expected }}')
    const token = tokenAt(text, next)
    if (token === null) throw errorAt(line, `unexpected ${JSON.stringify(text.slice(next, next + 1))}`)
    tokens.push({ ...token, isNext: next === at && at > from })
    at = next + token.text.length
  }
}

function readComment(text: string, start: number, line: number): Action {
  const close = text.indexOf('*/', start + 2)
  const after = close === -1 ? text.length : skipSpace(text, close + 2)
  const end = closeAt(text, after, after > close + 2)
  if (end === null) throw errorAt(line, 'a comment is not closed; expected */}}')
  return { tokens: null, ...end }
}

function closeAt(text: string, at: number, isAfterSpace: boolean): Omit<Action, 'tokens'> | null {
  if (text.startsWith('}}', at)) return { end: at + 2, trimsNext: false }
  return isAfterSpace && text.startsWith('-}}', at) ? { end: at + 3, trimsNext: true } : null
}

function tokenAt(text: string, at: number): Pick<Token, 'kind' | 'text'> | null {
  for (const [kind, rule] of rules) {
    rule.lastIndex = at
    const found = rule.exec(text)
    if (found !== null) return { kind, text: found[0] }
  }
  return null
}

const isSpace = (character: string | undefined): boolean =>
  character === ' ' || character === '\t' || character === '\n' || character === '\r'

function skipSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text[at])) at += 1
  return at
}

const trimStart = (text: string): string => text.slice(skipSpace(text, 0))

function trimEnd(text: string, isTrimmed: boolean): string {
  let end = text.length
  while (isTrimmed && end > 0 && isSpace(text[end - 1])) end -= 1
  return text.slice(0, end)
}

const countLines = (text: string): number => text.split('\n').length - 1
