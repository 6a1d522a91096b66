// A process that runs an embedded database, for tests that kill it: `embedded-process.ts <data-dir> <system-base>`.
// It prints a line when it is ready; `stop` stops it in order, `exit` exits at once.
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { silentLog, systemClock } from '@muster/host'
import { startEmbedded } from '../src/postgres/embedded.ts'

const [dataDir = '', systemBase = ''] = process.argv.slice(2)
const say = (answer: object): void => void process.stdout.write(`${JSON.stringify(answer)}\n`)
try {
  const postgres = await startEmbedded({ dataDir, systemBase, clock: systemClock, log: silentLog })
  say({ connection: postgres.connection, pid: postgres.pid })
  const [line] = await once(createInterface({ input: process.stdin }), 'line')
  if (line === 'exit') process.exit(7)
  await postgres.stop()
  process.exit(0)
} catch (error) {
  say({ error: error instanceof Error ? error.message : String(error) })
  process.exit(1)
}
