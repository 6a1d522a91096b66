// Rows that this version cannot read: a newer controller wrote them. Old and new controllers run side by side during an upgrade,
// so such a row is skipped and reported, and all other rows are read.
import { type Log, silentLog } from '@muster/host'

export interface RowReader {
  /** The rows that this version can read. Reports each other row once. */
  readAll<Row, T>(rows: readonly Row[], read: (row: Row) => T, nameOf: (row: Row) => string): T[]
}

/** Names of reported rows are kept in memory. */
const maxReported = 1_000

export function createRowReader(log: Log = silentLog): RowReader {
  const reported = new Set<string>()
  const report = (row: string, error: unknown): void => {
    if (reported.has(row)) return
    if (reported.size >= maxReported) reported.clear()
    reported.add(row)
    log.warn('row skipped: this version cannot read it; a newer controller continues it', { row, error })
  }
  return {
    readAll: (rows, read, nameOf) =>
      rows.flatMap((row) => {
        try {
          return [read(row)]
        } catch (error) {
          report(nameOf(row), error)
          return []
        }
      }),
  }
}

/** Null: this version cannot read the row. */
export function tryRead<T>(read: () => T): T | null {
  try {
    return read()
  } catch {
    return null
  }
}
