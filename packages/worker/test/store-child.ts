// Upgrades a backend in a process that kills itself at a named step: store-child.ts ROOT STEP
import { systemClock, silentLog } from '@muster/host'
import { Digest } from '@muster/protocol'
import { openBackendStore } from '../src/storage/backend-store.ts'
import { backendLayer, layersOf, never, recordOf, streamOf, treeOf } from './test-store.ts'
import { upgradeLayers } from './upgrade-layers.ts'
import { sharedThreads } from './shared-threads.ts'

const [root = '', killAt = ''] = process.argv.slice(2)

const step = (name: string): void => {
  if (name === killAt) process.kill(process.pid, 'SIGKILL')
}
const store = await openBackendStore({ root, threads: sharedThreads, clock: systemClock, log: silentLog, keepFreeBytes: 0, step })
for (const layer of upgradeLayers) {
  const open = async (offset: number) => ({ stream: streamOf(layer.bytes, offset, 10_000), offset })
  await store.fetchBlob({ digest: Digest.parse(layer.digest), size: layer.size, open }, { signal: never })
}
await store.unpack(treeOf(upgradeLayers), layersOf(upgradeLayers), { signal: never })
await store.activate(recordOf('llama', treeOf(upgradeLayers), '2'))
// No record names this blob, so that there is something to collect.
const stray = backendLayer('stray')
await store.fetchBlob(
  { digest: Digest.parse(stray.digest), size: stray.size, open: async () => ({ stream: streamOf(stray.bytes), offset: 0 }) },
  { signal: never },
)
await store.collect(never)
