// Scores of mutation runs: the share of changes that a test noticed. Pure.
export interface Change {
  readonly file: string
  readonly line: number
  /** One of Killed, Timeout, Survived, NoCoverage; others (errors, ignored) do not count. */
  readonly status: string
  readonly kind: string
  readonly replacement: string
}

const noticed = new Set(['Killed', 'Timeout'])
const missed = new Set(['Survived', 'NoCoverage'])

/** In percent; 100 without any change. */
export function scoreOf(changes: readonly Change[]): number {
  const killed = changes.filter(({ status }) => noticed.has(status)).length
  const survived = changes.filter(({ status }) => missed.has(status)).length
  return killed + survived === 0 ? 100 : (100 * killed) / (killed + survived)
}

/** One line per group and file, the lowest score of a group first. */
export function formatScores(changes: readonly Change[], groupOf: (file: string) => string): string {
  const groups = Object.entries(Object.groupBy(changes, ({ file }) => groupOf(file))).toSorted(([a], [b]) => a.localeCompare(b))
  return groups
    .flatMap(([group, all = []]) => [
      formatScore(group, all),
      ...Object.entries(Object.groupBy(all, ({ file }) => file))
        .map(([file, own = []]) => ({ name: `  ${file.slice(group.length + 1)}`, own }))
        .toSorted((a, b) => scoreOf(a.own) - scoreOf(b.own))
        .map(({ name, own }) => formatScore(name, own)),
    ])
    .join('\n')
}

const formatScore = (name: string, changes: readonly Change[]): string =>
  `${scoreOf(changes).toFixed(1).padStart(5)} %  ${String(changes.length).padStart(5)}  ${name}`

export function formatSurvivors(changes: readonly Change[]): string {
  return changes
    .filter(({ status }) => missed.has(status))
    .map(({ file, line, status, kind, replacement }) => {
      const text = replacement.replaceAll(/\s+/g, ' ')
      return `${file}:${line}  ${kind}${status === 'NoCoverage' ? ' (no test)' : ''}: ${text.length > 100 ? `${text.slice(0, 100)}…` : text}`
    })
    .join('\n')
}
