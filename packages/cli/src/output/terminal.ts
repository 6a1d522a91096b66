// Input and output of a command: the two streams, a screen and a status line where stdout or stderr is a terminal, and a
// printer for text or JSON.
import { createInterface } from 'node:readline'
import { text as readStreamText } from 'node:stream/consumers'
import { type CommandWriter, createCommandWriter } from './command-writer.ts'
import { cutToWidth, plainJson } from './text.ts'

export interface Terminal {
  out(text: string): void
  /** Without the end of the line. */
  write(text: string): void
  err(text: string): void
  /** Cells per line when stdout is a terminal; null when it is a file or a pipe. */
  readonly width: number | null
  /** Null when stdout is not a terminal that can redraw lines. */
  readonly screen: Screen | null
  /** The last line of stderr during a wait; null when stderr is not a terminal. */
  readonly status: StatusLine | null
  readonly colors: { readonly out: boolean; readonly err: boolean }
  /** Used for all that `err` prints. */
  readonly commands: CommandWriter
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
  /** The words of the command line after the program. */
  args?: readonly string[]
}): Terminal {
  const { stdout, stderr, env, args = [] } = streams
  const commands = createCommandWriter({ env, args })
  const obeys = env['TERM'] !== 'dumb'
  // https://no-color.org: present and not empty.
  const allowed = (env['NO_COLOR'] ?? '') === '' && obeys
  return {
    out: (text) => void stdout.write(`${text}\n`),
    write: (text) => void stdout.write(text),
    err: (text) => void stderr.write(`${commands.write(text)}\n`),
    width: stdout.isTTY === true ? Math.max(40, stdout.columns ?? 80) : null,
    screen: obeys && stdout.isTTY === true ? createScreen(stdout) : null,
    status: obeys && stderr.isTTY === true ? createStatusLine(stderr) : null,
    colors: { out: allowed && stdout.isTTY === true, err: allowed && stderr.isTTY === true },
    commands,
  }
}

/** Lines that are redrawn in place, below earlier output. */
export interface Screen {
  /** Current cells per line: windows change their size. */
  width(): number
  /** Lines that can be drawn. */
  height(): number
  /** Lines that do not fit are left out, and counted in the last one. */
  draw(lines: readonly string[]): void
}

export function createScreen(stream: OutputStream): Screen {
  let drawn = 0
  return {
    width: () => Math.max(40, stream.columns || 80),
    height: () => roomIn(stream),
    draw: (lines) => {
      const shown = fitLines(lines, roomIn(stream))
      const back = drawn === 0 ? '' : `\u001b[${drawn}A`
      const text = shown.map((line) => `\u001b[2K${line}\n`).join('')
      // Without wrapping: a wrapped line would break the count of lines to go back.
      stream.write(`${back}\u001b[?7l${text}\u001b[J\u001b[?7h`)
      drawn = shown.length
    },
  }
}

/** One line stays free for the cursor: writing below the last one would scroll. */
const roomIn = (stream: OutputStream): number => Math.max(2, (stream.rows || 24) - 1)

function fitLines(lines: readonly string[], most: number): readonly string[] {
  return lines.length <= most ? lines : [...lines.slice(0, most - 1), `… and ${lines.length - most + 1} more`]
}

/** One line that shows what a command waits for. */
interface StatusLine {
  show(text: string): void
  clear(): void
}

export function createStatusLine(stream: OutputStream): StatusLine {
  let isShown = false
  return {
    show: (text) => {
      isShown = true
      stream.write(`\r\u001b[2K${cutToWidth(text, Math.max(20, (stream.columns || 80) - 1))}`)
    },
    clear: () => {
      if (isShown) stream.write('\r\u001b[2K')
      isShown = false
    },
  }
}

type PromptInput =
  | { readonly kind: 'line'; readonly text: string }
  /** Ctrl-C: the typed text is dropped. */
  | { readonly kind: 'interrupted' }
  /** Ctrl-D. */
  | { readonly kind: 'end' }

export interface Input {
  /** Both stdin and stdout are a terminal. */
  readonly isTerminal: boolean
  /** Reads stdin to its end. */
  readAll(): Promise<string>
  /** Prompts for lines, with editing and history. */
  createPrompt(): (question: string) => Promise<PromptInput>
}

interface InputStreams {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean }
}

export function createInput({ stdin, stdout }: InputStreams): Input {
  return {
    isTerminal: stdin.isTTY === true && stdout.isTTY === true,
    readAll: () => readStreamText(stdin),
    createPrompt: () => {
      let history: string[] = []
      return (question) =>
        new Promise((resolve) => {
          // Open for one line only: in between, the terminal is in its normal mode, and Ctrl-C is a signal.
          const lines = createInterface({ input: stdin, output: stdout, history, terminal: true })
          const end = (typed: PromptInput): void => {
            resolve(typed)
            lines.close()
          }
          lines.on('history', (now: string[]) => void (history = now))
          lines.on('SIGINT', () => {
            stdout.write('\n')
            end({ kind: 'interrupted' })
          })
          lines.on('close', () => resolve({ kind: 'end' }))
          lines.question(question, (line) => end({ kind: 'line', text: line }))
        })
    },
  }
}

/** With JSON, stdout carries the API's object and nothing else; with text, results go to stdout and remarks to stderr. */
export interface Printer {
  readonly format: 'text' | 'json'
  readonly width: number | null
  /** Prints `raw` as JSON, or `text()`. An answer without a body prints no JSON at all. */
  result(raw: unknown, text: () => string): void
  /** One object of a stream: JSON on one line each, or a line of text. */
  line(raw: unknown, text: () => string): void
  /** For people; left out with JSON. */
  remark(text: string): void
}

export function createPrinter(terminal: Pick<Terminal, 'out' | 'err' | 'width'>, format: 'text' | 'json'): Printer {
  const print =
    (indent: number | undefined) =>
    (raw: unknown, text: () => string): void => {
      if (format === 'text') terminal.out(text())
      else if (raw !== undefined) terminal.out(plainJson(raw, indent))
    }
  return {
    format,
    width: terminal.width,
    result: print(2),
    line: print(undefined),
    remark: (text) => {
      if (format === 'text') terminal.err(text)
    },
  }
}

/** A raw answer, to be merged with another. */
export const asObject = (raw: unknown): object => (typeof raw === 'object' && raw !== null ? raw : {})
