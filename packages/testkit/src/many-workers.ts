// Many workers in one process, for tests and figures that need a fleet: each is a whole worker, with a key, a
// session and a bus connection of its own. Run as a program:
//   node many-workers.ts --join URL --count N --directory D        (the token comes in MUSTER_TOKEN)
// Prints "started N" when all run, and ends with 1, naming the worker, if one of them ends early.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'
import { startWorker, workerSettings } from '@muster/worker'

const { values } = parseArgs({ options: { join: { type: 'string' }, count: { type: 'string' }, directory: { type: 'string' } } })
const count = Number(values.count)

async function start(index: number) {
  const dataDir = await openDataDir({ path: join(values.directory ?? '', `worker-${index}`), role: 'worker' })
  const settings = resolveSettings(workerSettings, {
    flags: { join: values.join, name: `many-${String(index).padStart(4, '0')}`, 'gateway-listen': '127.0.0.1:0' },
    env: process.env,
  })
  return await startWorker({ settings, dataDir, log: silentLog, clock: systemClock })
}

const workers = await Promise.all(Array.from({ length: count }, (_, index) => start(index)))
for (const [index, worker] of workers.entries()) {
  void worker.ended.then(({ code, message }) => {
    process.stderr.write(`worker ${index} ended: ${code} ${message}\n`)
    process.exitCode = 1
  })
}
process.stdout.write(`started ${workers.length}\n`)
process.once('SIGTERM', () => void Promise.all(workers.map((worker) => worker.stop())).then(() => process.exit(0)))
