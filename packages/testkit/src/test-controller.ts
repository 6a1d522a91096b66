// A controller inside the test's own process: the real one, on a real database, with the bus in reach of the test.
import { join } from 'node:path'
import { createLocalHub, type LocalHub } from '@muster/bus'
import { controllerSettings, startController, type Controller } from '@muster/controller'
import { explainSettings, openDataDir, resolveSettings, silentLog, systemClock, type Log } from '@muster/host'
import { createApiClient, type ApiClient } from './api-client.ts'
import { adminKey, joinToken } from './cluster.ts'

export interface TestControllerOptions {
  readonly directory: string
  readonly databaseUrl: string
  readonly flags?: Readonly<Record<string, string | boolean>>
  readonly hub?: LocalHub
  readonly ownWorkers?: () => ReadonlySet<string>
  /** Instead of the backends that come with Muster. */
  readonly backendsDirectory?: string
  readonly log?: Log
}
export interface TestController extends AsyncDisposable {
  readonly controller: Controller
  readonly url: string
  /** With the admin key. */
  readonly api: ApiClient
  readonly hub: LocalHub
  stop(): Promise<void>
}

export async function startTestController(options: TestControllerOptions): Promise<TestController> {
  const log = options.log ?? silentLog
  const hub = options.hub ?? createLocalHub({ log })
  const dataDir = await openDataDir({ path: join(options.directory, 'controller'), role: 'controller' })
  const sources = {
    flags: { port: '0', ...options.flags },
    env: { MUSTER_DATABASE_URL: options.databaseUrl, MUSTER_ADMIN_KEY: adminKey, MUSTER_JOIN_TOKEN: joinToken },
  }
  const controller = await startController({
    settings: resolveSettings(controllerSettings, sources),
    explained: explainSettings(controllerSettings, sources),
    dataDir,
    log,
    clock: systemClock,
    localHub: hub,
    ...(options.backendsDirectory === undefined ? {} : { backendsDirectory: options.backendsDirectory }),
    ...(options.ownWorkers === undefined ? {} : { ownWorkers: options.ownWorkers }),
  })
  await controller.ready(AbortSignal.timeout(120_000))
  const stop = async (): Promise<void> => {
    await controller.stop()
    await dataDir.release()
  }
  const url = `http://127.0.0.1:${controller.port}`
  return { controller, url, api: createApiClient(url, adminKey), hub, stop, [Symbol.asyncDispose]: stop }
}
