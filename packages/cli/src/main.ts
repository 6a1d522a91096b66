// The entry of `muster`: runs one command and turns its end into an exit code. No decisions here.
import { systemClock, version } from '@muster/host'
import { createTerminal } from './output/terminal.ts'
import { createProgram } from './program.ts'
import { exitCodeOf, reportError } from './report-error.ts'

const terminal = createTerminal({ stdout: process.stdout, stderr: process.stderr, env: process.env })
let outlivesItsReader = false

// `muster nodes ls | head`: the reader has seen enough, and that is no failure.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    if (!outlivesItsReader) process.exit(0)
  })
}

try {
  const program = createProgram({
    terminal,
    env: process.env,
    clock: systemClock,
    version,
    outliveReader: () => (outlivesItsReader = true),
    fail: () => (process.exitCode = 1),
  })
  await program.parseAsync()
} catch (error) {
  reportError(error, terminal)
  process.exitCode = exitCodeOf(error)
}
