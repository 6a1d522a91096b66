// The report of a violation: everything that was observed of the operation, or of the backend on the node.
import type { Violation } from './observation.ts'
import type { ChaosReport } from './run.ts'

const linesShown = 60

export function showViolation({ rule, what, about }: Violation, { observed, history }: ChaosReport): string {
  const { node, backend, operation, replica } = about
  const isAbout = (each: { node?: string; backend?: string; operation?: string; replica?: string }): boolean =>
    (node === undefined || each.node === undefined || each.node === node) &&
    (backend === undefined || each.backend === undefined || each.backend === backend) &&
    (operation === undefined || each.operation === undefined || each.operation === operation) &&
    (replica === undefined || each.replica === undefined || each.replica === replica)
  const wanted = node === undefined && operation === undefined ? () => false : isAbout
  const parts: readonly (readonly [string, readonly object[]])[] = [
    [
      'submissions',
      observed.accepted.filter(
        (submission) => wanted(submission) && (submission.nodes === null || node === undefined || submission.nodes.includes(node)),
      ),
    ],
    ['history', history.filter((row) => node !== undefined && wanted(row))],
    ['journal', observed.commands.filter((command) => node !== undefined && wanted(command))],
    ['disk', observed.disk.filter((record) => node !== undefined && wanted(record))],
    ['shown', observed.shown.filter((shown) => operation !== undefined && wanted(shown))],
    ['changes', observed.changes.filter((change) => operation !== undefined && wanted(change))],
    ['backends', observed.shownBackends.filter((shown) => node !== undefined && backend !== undefined && wanted(shown))],
    ['processes', observed.lives.filter((life) => replica !== undefined && wanted(life))],
    ['replicas', observed.shownReplicas.filter((shown) => replica !== undefined && wanted(shown))],
    ['clear', observed.clear.filter((window) => (operation ?? replica ?? backend) !== undefined && wanted(window))],
    ['faults', observed.faults.filter(({ name }) => name === node || !name.startsWith('worker-'))],
    ['row', observed.intents.filter((intent) => node !== undefined && wanted(intent))],
  ]
  const told = parts.flatMap(([title, rows]) =>
    rows.length === 0 ? [] : [`  ${title}`, ...rows.slice(-linesShown).map((row) => `    ${JSON.stringify(row)}`)],
  )
  return [`${rule}: ${what}`, `  ${JSON.stringify(about)}`, ...told].join('\n')
}

export function summarize({ kills, disturbances, accepted, refused, settledAfterMs, violations, observed }: ChaosReport): string {
  const total = Object.values(kills).reduce((sum, count) => sum + count, 0)
  const list = (counts: Readonly<Record<string, number>>): string =>
    Object.entries(counts)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')
  return [
    `${total} kills (${list(kills)}), ${disturbances} freezes and cuts`,
    `${accepted} operations accepted, ${observed.changes.length} cancels and retries (refused: ${list(refused) || 'none'})`,
    `${observed.commands.length} commands carried out, ${observed.lives.length} engines started, ${observed.shown.length} changes of status seen`,
    `settled ${settledAfterMs ?? '—'} ms after quiet`,
    `${violations.length} violations`,
  ].join('\n')
}
