// What the doctor found, for a person.
import { plainText } from '../output/plain-text.ts'
import type { Finding } from './run-checks.ts'
import type { Level } from './verdict.ts'

const colour: Readonly<Record<Level, string>> = { ok: '\u001b[32m', warn: '\u001b[33m', fail: '\u001b[31m' }

export function renderFindings(findings: readonly Finding[], { colours }: { colours: boolean }): string {
  const width = Math.max(...findings.map(({ name }) => name.length))
  const mark = (level: Level): string => (colours ? `${colour[level]}${level.padEnd(4)}\u001b[39m` : level.padEnd(4))
  const lines = findings.flatMap(({ name, level, found, advice }) => [
    `${mark(level)}  ${name.padEnd(width)}  ${plainText(found)}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 6)}  → ${plainText(advice)}`]),
  ])
  return [...lines, '', summary(findings)].join('\n')
}

function summary(findings: readonly Finding[]): string {
  const count = (level: Level): number => findings.filter((finding) => finding.level === level).length
  if (count('fail') > 0) return `${count('fail')} of ${findings.length} checks failed.`
  if (count('warn') > 0) return `No check failed; ${count('warn')} of ${findings.length} deserve a look.`
  return `All ${findings.length} checks are fine.`
}
