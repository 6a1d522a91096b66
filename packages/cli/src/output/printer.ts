// What a command says, in the format the user asked for. With JSON, stdout carries the API's object
// and nothing else; with text, results go to stdout and remarks to stderr.
import { plainJson } from './plain-text.ts'
import type { Terminal } from './terminal.ts'

export interface Printer {
  readonly format: 'text' | 'json'
  readonly width: number | null
  /** `raw` is printed as JSON, or `text()` as it is. An answer without a body prints no JSON at all. */
  result(raw: unknown, text: () => string): void
  /** One object of a stream: JSON on one line each, or a line of text. */
  line(raw: unknown, text: () => string): void
  /** For a person who looks on; left out with JSON. */
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
