// What is told of a process that ended, or did not come up. Pure.
import type { Failure } from '@muster/protocol'
import type { Exit } from './machine.ts'

const mostCharacters = 6_000

export function exitFailure(exit: Exit): Failure {
  const message = `its process ended before it was ready: ${exitReason(exit)}${said(exit.lines)}`
  return { code: 'unavailable', retry: 'backoff', message }
}

export function silenceFailure(silenceMs: number, lines: readonly string[]): Failure {
  const message = `its process was not ready and gave no sign of life for ${Math.round(silenceMs / 1000)} s, so it was ended${said(lines)}`
  return { code: 'timeout', retry: 'backoff', message }
}

export function exitReason({ code, signal }: Pick<Exit, 'code' | 'signal'>): string {
  if (signal !== null) return `killed by ${signal}${signal === 'SIGKILL' ? ' (out of memory, or by hand)' : ''}`
  return code === null ? 'nobody saw how' : `exit code ${code}`
}

/** The end of it is what matters. */
function said(lines: readonly string[]): string {
  if (lines.length === 0) return '; it wrote nothing'
  const text = lines.join('\n')
  return `; it wrote last:\n${text.length > mostCharacters ? `…${text.slice(-mostCharacters)}` : text}`
}
