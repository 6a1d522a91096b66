// Stages a model in a process that may be killed: model-files-child.ts ROOT URL SHA256 [STEP [unpack]]
import { join } from 'node:path'
import { resolveSettings, silentLog, systemClock } from '@muster/host'
import { ModelName } from '@muster/protocol'
import { openModelFiles } from '../src/models/model-files.ts'
import { workerSettings } from '../src/settings.ts'
import { sharedThreads } from './shared-threads.ts'

const [root = '', uri = '', sha256 = '', killAt = '', unpack = ''] = process.argv.slice(2)

const files = await openModelFiles({
  dataDir: { path: (name) => join(root, name) },
  settings: resolveSettings(workerSettings, { flags: { 'allow-source': ['127.0.0.1'] }, env: {} }),
  cluster: () => null,
  threads: sharedThreads,
  builtin: { references: () => [], images: { resolve: fail, resolveFile: fail, openBlob: fail } },
  keepFreeBytes: 0,
  step: (name) => {
    if (name === killAt) process.kill(process.pid, 'SIGKILL')
  },
  clock: systemClock,
  log: silentLog,
})
const wanted = { uri, filename: 'w.gguf', ...(sha256 === '' ? {} : { sha256 }), ...(unpack === '' ? {} : { unpack: true }) }
await files.stage(
  { model: ModelName.parse('tiny'), revision: 'r1', files: [wanted] },
  {
    signal: new AbortController().signal,
    onProgress: ({ current }) => void process.stdout.write(`at ${current ?? 0}\n`),
    onSign: () => undefined,
  },
)
await files.remove(ModelName.parse('tiny'))
await files.close()

async function fail(): Promise<never> {
  throw new Error('no controller')
}
