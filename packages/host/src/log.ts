// Logs: a constant message and fields. JSON lines are pino's; text lines are made from the same JSON,
// so that what one format hides (a Secret) the other can't show.
import { hostname } from 'node:os'
import { pino } from 'pino'
import { systemClock, type Clock } from './clock.ts'
import { describeError } from './describe-error.ts'
import { renderLogLine } from './render-log-line.ts'

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
  // Bound fields are merged here and not by pino, which would write a key twice that a message sets again.
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
