// Runs one command in this process and turns its end into an exit code. No decisions here.
import { systemClock, version } from '@muster/host'
import { createInput, createTerminal } from './output/terminal.ts'
import { createProgram } from './program.ts'
import { exitCodeOf, reportError } from './cli-error.ts'

export async function run(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const terminal = createTerminal({ stdout: process.stdout, stderr: process.stderr, env })
  const input = createInput({ stdin: process.stdin, stdout: process.stdout })
  let outlivesItsReader = false
  // `muster nodes ls | head`: the reader has seen enough, and that is no failure.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // A service goes on without its log: a full disk must not end it, and telling of it would fail in the same way.
      if (outlivesItsReader) return
      process.exit(error.code === 'EPIPE' ? 0 : 1)
    })
  }
  const outliveReader = (): void => void (outlivesItsReader = true)
  const fail = (code = 1): void => void (process.exitCode = code)
  try {
    await createProgram({ terminal, input, env, clock: systemClock, version, outliveReader, fail }).parseAsync()
  } catch (error) {
    reportError(error, terminal)
    process.exitCode = exitCodeOf(error)
  }
  // The command is over: a handle that a service forgot, or a disk that never answers, must not keep the process.
  setTimeout(() => process.exit(), 1000).unref()
}
