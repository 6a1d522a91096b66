// A worker as a process of its own.
import { type Clock, type Log, openDataDir } from '@muster/host'
import type { WorkerSettings } from '@muster/worker'
import { CliError } from '../cli-error.ts'
import type { Service } from './run-service.ts'

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
    log.info('the worker ended', { reason: message })
  })
  return { ended, stop: () => owned.disposeAsync() }
}
