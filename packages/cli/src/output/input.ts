// What is typed or piped into a command.
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

export type PromptInput =
  | { readonly kind: 'line'; readonly text: string }
  /** Ctrl-C: what was typed is thrown away. */
  | { readonly kind: 'interrupted' }
  /** Ctrl-D: there is nothing more. */
  | { readonly kind: 'end' }

export interface Input {
  /** A person is there to be asked. */
  readonly isTerminal: boolean
  /** All of it, to its end. */
  readAll(): Promise<string>
  /** Asks for lines, with editing and a memory of those before. */
  createPrompt(): (question: string) => Promise<PromptInput>
}

export interface InputStreams {
  readonly stdin: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  readonly stdout: NodeJS.WritableStream & { readonly isTTY?: boolean }
}

export function createInput({ stdin, stdout }: InputStreams): Input {
  return {
    isTerminal: stdin.isTTY === true && stdout.isTTY === true,
    readAll: () => text(stdin),
    createPrompt: () => {
      let history: string[] = []
      return (question) =>
        new Promise((resolve) => {
          // Open for one line only: in between, the terminal is as it was, and Ctrl-C is a signal like any other.
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
