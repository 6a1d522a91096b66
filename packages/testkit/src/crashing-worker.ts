// A whole worker that kills itself, as kill -9 or a power switch would, when it reaches a named step. Run as a program:
//   node crashing-worker.ts --join URL --directory D [--kill-at STEP [--nth N]]      (the token comes in MUSTER_TOKEN)
// Without --kill-at it is a worker like any other.
import { parseArgs } from 'node:util'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { startWorker, workerSettings } from '@muster/worker'

const { values } = parseArgs({
  options: {
    join: { type: 'string' },
    directory: { type: 'string', default: '' },
    'kill-at': { type: 'string' },
    nth: { type: 'string', default: '1' },
  },
})
let left = Number(values.nth)

function step(name: string): void {
  if (name !== values['kill-at']) return
  left -= 1
  if (left === 0) process.kill(process.pid, 'SIGKILL')
}

const dataDir = await openDataDir({ path: values.directory, role: 'worker' })
const settings = resolveSettings(workerSettings, {
  flags: { join: values.join, name: 'crashing', 'gateway-listen': '127.0.0.1:0', capability: 'default' },
  env: process.env,
})
const worker = await startWorker({ settings, dataDir, log: silentLog, clock: systemClock, step })
process.once('SIGTERM', () => void worker.stop())
const { code, message } = await worker.ended
process.stderr.write(`${message}\n`)
process.exit(code)
