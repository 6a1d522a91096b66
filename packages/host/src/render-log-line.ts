// One line of pino's JSON as a person reads it: time, level, message, key=value. Only an error's stack
// takes more lines, indented, so that nothing a field holds can pass for a line of its own.
import { pino } from 'pino'
import type { DescribedError } from './describe-error.ts'

export function renderLogLine(line: string): string {
  const { level, time, msg, ...fields }: Record<string, unknown> = JSON.parse(line)
  const label = (pino.levels.labels[Number(level)] ?? '?').toUpperCase()
  const stacks: string[] = []
  const parts = Object.entries(fields).flatMap(([key, value]) => {
    if (!isDescribedError(value)) return [`${text(key)}=${show(value)}`]
    if (label === 'ERROR') stacks.push(...stacksOf(value))
    return [`${text(key)}=${show(errorSentence(value))}`, ...(value.code === undefined ? [] : [`${text(key)}.code=${show(value.code)}`])]
  })
  const head = `${new Date(Number(time)).toISOString()} ${label.padEnd(5)} ${text(String(msg))}`
  return `${[[head, ...parts].join(' '), ...stacks.map((each) => `    ${each}`)].join('\n')}\n`
}

function isDescribedError(value: unknown): value is DescribedError {
  return typeof value === 'object' && value !== null && 'message' in value && 'stack' in value && typeof value.stack === 'string'
}

function errorSentence(error: DescribedError): string {
  return error.cause === undefined ? error.message : `${error.message}: ${errorSentence(error.cause)}`
}

function stacksOf(error: DescribedError): string[] {
  const own = (error.stack ?? '').split('\n').map(text)
  return error.cause === undefined ? own : [...own, ...stacksOf(error.cause).map((line, i) => (i === 0 ? `caused by ${line}` : line))]
}

function show(value: unknown): string {
  const isWord = typeof value === 'string' && /^[^\s"=\p{C}]+$/u.test(value)
  return isWord ? value : text(JSON.stringify(value))
}

/** Control characters (a terminal obeys them) become their escapes. */
function text(value: string): string {
  return value.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
