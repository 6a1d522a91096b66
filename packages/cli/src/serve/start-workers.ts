// Starts workers: inside the process of `muster up`, or as a process of their own. A worker inside `up` joins over HTTP too,
// but the controller trusts its key beforehand, and it may use the in-process bus.
import type { LocalHub } from '@muster/bus'
import { type Clock, type Log, openDataDir, resolveSettings } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { SettingsOfUp, Worker, WorkerSettings } from '@muster/worker'
import { CliError } from '../cli-error.ts'
import type { Service } from './run-service.ts'

export interface LocalWorkerStart {
  readonly name: string
  readonly dataDir: string
  /** The controller, as this machine reaches it. */
  readonly url: string
  /** The settings of the controller, of which the worker takes those that it shares. */
  readonly settings: Partial<SettingsOfUp>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly localHub: LocalHub | undefined
  /** Called with its public key before it registers. */
  readonly trust: (publicKey: string) => void
  readonly log: Log
  readonly clock: Clock
}

export interface LocalWorker {
  /** Resolves when it takes commands; rejects when it ended before. */
  readonly joined: Promise<void>
  stop(): Promise<void>
  /** Kills the processes of its replicas. */
  kill(): Promise<void>
}

export async function startLocalWorker(start: LocalWorkerStart): Promise<LocalWorker> {
  const { name, url, env, localHub, trust, log, clock } = start
  const { readNatsTls } = await import('@muster/bus')
  const { connectNatsBus, loadNodeKey, settingsOfUp, startWorker, workerSettings } = await import('@muster/worker')
  const dataDir = await openDataDir({ path: start.dataDir, role: 'worker', clock })
  let worker: Worker
  const connected = Promise.withResolvers<void>()
  try {
    const key = await loadNodeKey(dataDir)
    trust(key.publicKey)
    // Without the environment, which is the controller's (`MUSTER_NAME` would give all workers one name).
    const settings = {
      ...resolveSettings(workerSettings, { flags: { join: url, name, 'gateway-listen': '127.0.0.1' }, env: {} }),
      ...Object.fromEntries(Object.entries(start.settings).filter(([setting]) => setting in settingsOfUp)),
    }
    const overNats = connectNatsBus({ key, tls: readNatsTls(settings), clock, log })
    worker = await startWorker({
      settings,
      dataDir,
      env,
      clock,
      log,
      connectBus: async (target) => {
        const bus = target.url.startsWith('local:') && localHub !== undefined ? localHub.connect() : await overNats(target)
        connected.resolve()
        return bus
      },
    })
  } catch (error) {
    await dataDir.release()
    throw error
  }
  let isStopping = false
  const ended = worker.ended.then(({ message }) => {
    if (!isStopping) log.warn('worker exited; the others continue', { reason: message })
    throw new FleetError({ code: 'unavailable', retry: 'never', message: `the worker ${name} ended: ${message}` })
  })
  const joined = Promise.race([connected.promise, ended])
  // After it joined, failures are only logged.
  joined.catch(() => undefined)
  return {
    joined,
    stop: async () => {
      isStopping = true
      await worker.stop()
      await dataDir.release()
    },
    kill: worker.kill,
  }
}

export interface WorkerStart {
  readonly settings: WorkerSettings
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
}

export async function startWorkerService({ settings, dataDir: path, env, log, clock, signal }: WorkerStart): Promise<Service> {
  const { startWorker } = await import('@muster/worker')
  await using stack = new AsyncDisposableStack()
  const dataDir = stack.use(await openDataDir({ path, role: 'worker', clock, signal }))
  const worker = await startWorker({ settings, dataDir, env, clock, log })
  stack.defer(() => worker.stop())
  const owned = stack.move()
  const ended = worker.ended.then(({ code, message }) => {
    if (code !== 0) throw new CliError(message)
    log.info('worker ended', { reason: message })
  })
  return { ended, stop: () => owned.disposeAsync(), kill: worker.kill }
}
