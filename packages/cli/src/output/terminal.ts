// The two streams a command writes to, and what the reader of the first one can show.
import { createScreen, type Screen } from './screen.ts'
import { createStatusLine, type StatusLine } from './status-line.ts'

export interface Terminal {
  out(text: string): void
  /** Without the end of the line. */
  write(text: string): void
  err(text: string): void
  /** Cells per line when stdout is a terminal; null when it is a file or a pipe. */
  readonly width: number | null
  /** Null where the reader of stdout can't go back to a line. */
  readonly screen: Screen | null
  /** The last line of stderr while something is waited for; null where it is no terminal. */
  readonly status: StatusLine | null
  readonly colours: { readonly out: boolean; readonly err: boolean }
}

export interface OutputStream {
  write(text: string): unknown
  readonly isTTY?: boolean
  readonly columns?: number
  readonly rows?: number
}

export function createTerminal(streams: {
  stdout: OutputStream
  stderr: OutputStream
  env: Readonly<Record<string, string | undefined>>
}): Terminal {
  const { stdout, stderr, env } = streams
  const obeys = env['TERM'] !== 'dumb'
  // https://no-color.org: present and not empty.
  const allowed = (env['NO_COLOR'] ?? '') === '' && obeys
  return {
    out: (text) => void stdout.write(`${text}\n`),
    write: (text) => void stdout.write(text),
    err: (text) => void stderr.write(`${text}\n`),
    width: stdout.isTTY === true ? Math.max(40, stdout.columns ?? 80) : null,
    screen: obeys && stdout.isTTY === true ? createScreen(stdout) : null,
    status: obeys && stderr.isTTY === true ? createStatusLine(stderr) : null,
    colours: { out: allowed && stdout.isTTY === true, err: allowed && stderr.isTTY === true },
  }
}
