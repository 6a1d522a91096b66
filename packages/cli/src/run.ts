// Runs one command in this process and sets the exit code.
import { systemClock, version } from '@muster/host'
import { createInput, createTerminal } from './output/terminal.ts'
import { createProgram } from './program.ts'
import { exitCodeOf, reportError } from './cli-error.ts'

export async function run(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const terminal = createTerminal({ stdout: process.stdout, stderr: process.stderr, env, args: process.argv.slice(2) })
  const input = createInput({ stdin: process.stdin, stdout: process.stdout })
  let ignoresClosedOutput = false
  // `muster nodes ls | head`: a reader that closes the pipe is not a failure.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A service continues without its log: a full disk must not end it.
      if (ignoresClosedOutput) return
      process.exit(error.code === 'EPIPE' ? 0 : 1)
    })
  }
  const ignoreClosedOutput = (): void => void (ignoresClosedOutput = true)
  const fail = (code = 1): void => void (process.exitCode = code)
  try {
    await createProgram({ terminal, input, env, clock: systemClock, version, ignoreClosedOutput, fail }).parseAsync()
  } catch (error) {
    reportError(error, terminal)
    process.exitCode = exitCodeOf(error)
  }
  // A leaked handle, or a disk that never answers, must not keep the process alive.
  setTimeout(() => process.exit(), 1000).unref()
}
