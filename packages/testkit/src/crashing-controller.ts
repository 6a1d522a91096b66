// A whole controller that kills itself, as kill -9 or a power switch would, when it reaches a named step. Run as a program:
//   node crashing-controller.ts --port P --directory D --nats URL --kill-at STEP
// The database's URL, the admin key and the join token come from the environment, as they do for a controller.
import { parseArgs } from 'node:util'
import { controllerSettings, startController } from '@muster/controller'
import { openDataDir, resolveSettings, silentLog, systemClock } from '@muster/host'

const { values } = parseArgs({
  options: {
    port: { type: 'string' },
    directory: { type: 'string', default: '' },
    nats: { type: 'string' },
    'kill-at': { type: 'string' },
  },
})

function step(name: string): void {
  if (name === values['kill-at']) process.kill(process.pid, 'SIGKILL')
}

const dataDir = await openDataDir({ path: values.directory, role: 'controller' })
const settings = resolveSettings(controllerSettings, {
  flags: { port: values.port, 'nats-url': values.nats, 'auto-approve': true, 'heartbeat-interval': '500ms', 'node-timeout': '3s' },
  env: process.env,
})
const controller = await startController({ settings, dataDir, log: silentLog, clock: systemClock, step })
await controller.ready()
process.stdout.write('ready\n')
