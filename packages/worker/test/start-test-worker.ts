// A whole worker in this process, against controllers and a bus of the test's choice.
import { createLocalHub, type LocalHub } from '@muster/bus'
import { openDataDir, resolveSettings, silentLog, systemClock, type Clock, type DataDir } from '@muster/host'
import { startWorker, workerSettings, type Installer, type Worker, type WorkerDeps } from '@muster/worker'
import { recordingLog, type RecordingLog } from './recording-log.ts'

export interface TestWorker extends Worker, AsyncDisposable {
  readonly log: RecordingLog
  readonly dataDir: DataDir
}

export type TestWorkerOptions = Readonly<{
  directory: string
  join?: string
  /** Null: none. */
  token?: string | null
  /** Undefined: left out. */
  flags?: Record<string, string | undefined>
  hub?: LocalHub
  clock?: Clock
  env?: Record<string, string>
  installer?: Installer
}>

export async function startTestWorker({
  directory,
  join,
  token,
  flags = {},
  hub,
  clock = systemClock,
  env,
  installer,
}: TestWorkerOptions): Promise<TestWorker> {
  const settings = resolveSettings(workerSettings, {
    flags: { join, token: token ?? undefined, name: 'tester', 'gateway-listen': '127.0.0.1:0', ...flags },
    env: {},
  })
  const dataDir = await openDataDir({ path: directory, role: 'worker' })
  const log = recordingLog()
  const local: Partial<WorkerDeps> = {
    ...(hub === undefined ? {} : { connectBus: async () => hub.connect() }),
    ...(installer === undefined ? {} : { installer }),
  }
  const worker = await startWorker({ settings, dataDir, clock, log, ...(env === undefined ? {} : { env }), ...local }).catch(
    async (error: unknown) => {
      await dataDir.release()
      throw error
    },
  )
  const ended = worker.ended.then(async (end) => {
    await dataDir.release()
    return end
  })
  const stop = async (): Promise<void> => {
    await worker.stop()
    await ended
  }
  return { ...worker, ended, stop, log, dataDir, [Symbol.asyncDispose]: stop }
}

export const newHub = (): LocalHub => createLocalHub({ log: silentLog })
