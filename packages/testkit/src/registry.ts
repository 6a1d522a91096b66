// A real OCI registry (Debian's docker-registry) on loopback, with an empty directory as its store.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createProcesses, type StartedProcess } from './processes.ts'
import { makeTempDir } from './temp-dir.ts'

export interface Registry extends AsyncDisposable {
  /** As in an image reference: `127.0.0.1:port`. */
  readonly host: string
  readonly url: string
  /** Where it keeps blobs and manifests, for tests that damage them. */
  readonly storagePath: string
  /** Its log: one line per request. */
  log(): string
  /** SIGKILL. What was pushed stays. */
  kill(): Promise<void>
  /** On the same port with what it had; a running one is killed first. */
  restart(): Promise<void>
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
    const start = async (address: string): Promise<{ process: StartedProcess; host: string }> => {
      await writeFile(config, configuration(storagePath, address))
      const started = await processes.start('docker-registry', { args: ['serve', config], cwd: dir.path })
      const [, host = ''] = await started.waitForOutput(/listening on (127\.0\.0\.1:\d+)/)
      return { process: started, host }
    }
    const first = await start('127.0.0.1:0')
    const { host } = first
    let running = first.process
    let logged = ''
    const kill = async (): Promise<void> => {
      running.kill('SIGKILL')
      await running.exited
    }
    return {
      host,
      url: `http://${host}`,
      storagePath,
      log: () => logged + running.output(),
      kill,
      async restart() {
        await kill()
        logged += running.output()
        running = (await start(host)).process
      },
      stop,
      [Symbol.asyncDispose]: stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

// JSON is YAML. The secret only signs upload sessions; without one the registry warns at each start.
function configuration(storagePath: string, address: string): string {
  return JSON.stringify({
    version: 0.1,
    log: { level: 'info', accesslog: { disabled: false } },
    storage: { filesystem: { rootdirectory: storagePath }, delete: { enabled: true } },
    http: { addr: address, secret: 'test' },
  })
}
