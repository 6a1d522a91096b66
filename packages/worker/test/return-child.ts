// Rolls back to the previous version, without any source, in a process that kills itself at a named step:
// return-child.ts ROOT STEP DIGEST
import { silentLog, systemClock } from '@muster/host'
import { BackendCommand } from '../src/operations/journal.ts'
import { perform } from '../src/operations/run-operation.ts'
import { createInstaller } from '../src/installer/create-installer.ts'
import { openBackendStore } from '../src/storage/backend-store.ts'
import { installContext, ownPlatform } from './registry-installer.ts'
import { sharedThreads } from './shared-threads.ts'

const [root = '', killAt = '', digest = ''] = process.argv.slice(2)
const step = (name: string): void => void (name === killAt && process.kill(process.pid, 'SIGKILL'))
const store = await openBackendStore({ root, threads: sharedThreads, clock: systemClock, log: silentLog, keepFreeBytes: 0, step })
const installer = createInstaller({
  store,
  sources: () => {
    throw new Error('a rollback must not use a source')
  },
  platform: ownPlatform,
  node: () => ({ os: ownPlatform.os, arch: ownPlatform.arch, capability: 'default' }),
  clock: systemClock,
  log: silentLog,
})
const order = BackendCommand.parse({ kind: 'upgrade', backend: 'llama', uri: 'registry.example/llama:1', digest })
process.stdout.write(JSON.stringify(await perform(order, { installer, context: installContext() })))
