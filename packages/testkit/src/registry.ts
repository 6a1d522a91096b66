// A real OCI registry (Debian's docker-registry) on loopback, with an empty directory as its store.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createProcesses } from './processes.ts'
import { makeTempDir } from './temp-dir.ts'

export interface Registry extends AsyncDisposable {
  /** As in an image reference: `127.0.0.1:port`. */
  readonly host: string
  readonly url: string
  /** Where it keeps blobs and manifests, for tests that damage them. */
  readonly storagePath: string
  /** What it logged: one line per request. */
  log(): string
  stop(): Promise<void>
}

export async function startRegistry(): Promise<Registry> {
  const dir = await makeTempDir('registry')
  const processes = createProcesses()
  const stop = async (): Promise<void> => {
    await processes.stopAll()
    await dir.remove()
  }
  try {
    const storagePath = join(dir.path, 'storage')
    const config = join(dir.path, 'config.yml')
    await writeFile(config, configuration(storagePath))
    const registry = await processes.start('docker-registry', { args: ['serve', config], cwd: dir.path })
    const [, host = ''] = await registry.waitForOutput(/listening on (127\.0\.0\.1:\d+)/)
    return { host, url: `http://${host}`, storagePath, log: registry.output, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

// JSON is YAML. The secret only signs upload sessions; without one the registry warns at each start.
function configuration(storagePath: string): string {
  return JSON.stringify({
    version: 0.1,
    log: { level: 'info', accesslog: { disabled: false } },
    storage: { filesystem: { rootdirectory: storagePath }, delete: { enabled: true } },
    http: { addr: '127.0.0.1:0', secret: 'test' },
  })
}
