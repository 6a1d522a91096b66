// The command line without a process of its own, where many small cases matter and starting one for
// each would only cost time: all but main.ts is the same.
import { systemClock } from '@muster/host'
import { PassThrough, Readable } from 'node:stream'
import { createInput, createTerminal } from '../src/output/terminal.ts'
import { createProgram } from '../src/program.ts'
import { exitCodeOf, reportError } from '../src/cli-error.ts'

export interface Result {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** `stdin`: text that is piped in, or the answer of a person at a terminal. */
export async function runInProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  stdin: string | { readonly typed: string } = '',
): Promise<Result> {
  const text = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof text) => ({ write: (more: string) => (text[name] += more) })
  const terminal = createTerminal({ stdout: stream('stdout'), stderr: stream('stderr'), env, args })
  const pipe = createInput({ stdin: Readable.from([typeof stdin === 'string' ? stdin : '']), stdout: new PassThrough() })
  const answer = (typed: string) => (question: string) => {
    text.stdout += question
    return Promise.resolve({ kind: 'line', text: typed } as const)
  }
  const input = typeof stdin === 'string' ? pipe : { ...pipe, isTerminal: true, createPrompt: () => answer(stdin.typed) }
  let code = 0
  const fail = (given = 1): void => void (code = given)
  try {
    const program = createProgram({
      terminal,
      input,
      env,
      clock: systemClock,
      version: '0.0.0-test',
      ignoreClosedOutput: () => undefined,
      fail,
    })
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    reportError(error, terminal)
    code = exitCodeOf(error)
  }
  return { code, ...text }
}
