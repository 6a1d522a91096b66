// The checks of `muster doctor`: their result, how they run, and how they are printed.
import { type Clock, withDeadline, errorMessage } from '@muster/host'
import { plainText } from '../output/text.ts'

export type Level = 'ok' | 'warn' | 'fail'

export interface Verdict {
  readonly level: Level
  /** A sentence without a full stop. */
  readonly found: string
  /** How to fix it. */
  readonly advice?: string
}

export interface Check {
  readonly name: string
  /** Gathers facts and judges them. Ends soon after the signal aborts; an exception is a failed check. */
  run(signal: AbortSignal): Promise<Verdict>
}

export const ok = (found: string): Verdict => ({ level: 'ok', found })
export const warn = (found: string, advice: string): Verdict => ({ level: 'warn', found, advice })
export const fail = (found: string, advice: string): Verdict => ({ level: 'fail', found, advice })

export type Finding = Verdict & { readonly name: string }

/** Runs all checks at once, each with its own time limit. */
export async function runChecks(checks: readonly Check[], { clock, timeoutMs }: { clock: Clock; timeoutMs: number }): Promise<Finding[]> {
  return Promise.all(checks.map(async (check) => ({ name: check.name, ...(await runOne(check, { clock, timeoutMs })) })))
}

async function runOne(check: Check, { clock, timeoutMs }: { clock: Clock; timeoutMs: number }): Promise<Verdict> {
  const run = async (signal: AbortSignal): Promise<Verdict> => {
    try {
      return await check.run(signal)
    } catch (error) {
      return fail(`the check itself failed: ${errorMessage(error)}`, 'this is a bug, or a very unusual machine: please report it')
    }
  }
  return withDeadline({ clock, ms: timeoutMs, what: check.name }, run).catch(() =>
    fail(`no result within ${timeoutMs / 1000} s`, 'a request of this check hangs: fix the other findings first'),
  )
}

const color: Readonly<Record<Level, string>> = { ok: '\u001b[32m', warn: '\u001b[33m', fail: '\u001b[31m' }

export function renderFindings(findings: readonly Finding[], { colors }: { colors: boolean }): string {
  const width = Math.max(...findings.map(({ name }) => name.length))
  const mark = (level: Level): string => (colors ? `${color[level]}${level.padEnd(4)}\u001b[39m` : level.padEnd(4))
  const lines = findings.flatMap(({ name, level, found, advice }) => [
    `${mark(level)}  ${name.padEnd(width)}  ${plainText(found)}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 6)}  → ${plainText(advice)}`]),
  ])
  return [...lines, '', summary(findings)].join('\n')
}

function summary(findings: readonly Finding[]): string {
  const count = (level: Level): number => findings.filter((finding) => finding.level === level).length
  if (count('fail') > 0) return `${count('fail')} of ${findings.length} checks failed.`
  if (count('warn') > 0) return `No check failed; ${count('warn')} of ${findings.length} have warnings.`
  return `All ${findings.length} checks passed.`
}
