// Logs: a constant message and fields. JSON lines are pino's; text lines are made from the same JSON, so that neither
// format shows a Secret.
import { hostname } from 'node:os'
import { pino } from 'pino'
import { FleetError } from '@muster/protocol'
import { type Clock, systemClock } from './clock.ts'
import { errorCode } from './error-code.ts'

export type Fields = Readonly<Record<string, unknown>>

export interface Log {
  debug(message: string, fields?: Fields): void
  info(message: string, fields?: Fields): void
  warn(message: string, fields?: Fields): void
  error(message: string, fields?: Fields): void
  child(fields: Fields): Log
}

export const logLevels = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof logLevels)[number]

export const logFormats = ['text', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

export interface LogOptions {
  readonly level: LogLevel
  readonly format: LogFormat
  readonly stream: { write(line: string): unknown }
  readonly clock?: Clock
}

export function createLog({ level, format, stream, clock = systemClock }: LogOptions): Log {
  const json = format === 'json'
  const logger = pino(
    { level, base: null, timestamp: () => `,"time":${clock.now()}` },
    json ? stream : { write: (line: string) => void stream.write(renderLogLine(line)) },
  )
  // Bound fields are merged here: pino would write a repeated key twice.
  const withFields = (bound: Fields): Log => {
    const at = (own: LogLevel) => (message: string, fields?: Fields) => {
      if (logger.isLevelEnabled(own)) logger[own](plain({ ...bound, ...fields }), message)
    }
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (fields) => withFields({ ...bound, ...fields }),
    }
  }
  return withFields(json ? { pid: process.pid, hostname: hostname() } : {})
}

export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLog }

const ownKeys: ReadonlySet<string> = new Set(['level', 'time', 'msg'])

function plain(fields: Fields): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [
      ownKeys.has(key) ? `_${key}` : key,
      value instanceof Error ? describeError(value) : value,
    ]),
  )
}

/** A line of pino's JSON as text: time, level, message, key=value. Only stacks take further lines, indented: no field can fake a line. */
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

export interface DescribedError {
  readonly message: string
  readonly code?: string | number
  readonly stack?: string
  readonly cause?: DescribedError
}

/** A chain of causes can be a cycle. */
const maxCauses = 5

/**
 * The loggable part of an error. Errors of HTTP clients and databases also carry headers, passwords and rows, which must not be
 * logged.
 */
function describeError(error: Error, causesLeft = maxCauses): DescribedError {
  const code = error instanceof FleetError ? error.failure.code : errorCode(error)
  return {
    message: messageOf(error),
    ...(code === undefined ? {} : { code }),
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error.cause instanceof Error && causesLeft > 0 ? { cause: describeError(error.cause, causesLeft - 1) } : {}),
  }
}

/** A connection tried over several addresses fails with an empty message and one error for each. */
function messageOf(error: Error): string {
  if (error.message !== '') return error.message
  if (error instanceof AggregateError)
    return error.errors.map((each: unknown) => (each instanceof Error ? messageOf(each) : String(each))).join('; ')
  return error.name
}
