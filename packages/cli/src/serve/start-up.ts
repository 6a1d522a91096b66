// A controller and its own workers in this process: all of `muster up`, and, without workers, all of
// `muster controller`. The database is embedded and the bus in-process unless others are named.
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { LocalHub } from '@muster/bus'
import type { ControllerSettings } from '@muster/controller'
import type { Clock, ExplainedSetting, Log } from '@muster/host'
import type { ModelFileSettings } from '@muster/worker'
import { usageError } from '../cli-error.ts'
import type { GivenFlag } from '../settings/given-flags.ts'
import { localUrl } from './local-url.ts'
import { readyMessage } from './ready-message.ts'
import type { Service } from './run-service.ts'
import { findSecret, type RunningController, secretFiles, startControllerOn } from './start-controller.ts'
import { type LocalWorker, startLocalWorker } from './start-local-worker.ts'

export interface UpStart {
  readonly settings: ControllerSettings & { readonly workers: number } & Partial<ModelFileSettings>
  readonly explained: readonly ExplainedSetting[]
  readonly given: readonly GivenFlag[]
  /** Of those that come with Muster: registered on an empty database. */
  readonly firstModels?: readonly string[]
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly print: (text: string) => void
}

type Running = RunningController & { readonly localUrl: string; readonly localHub: LocalHub | undefined; readonly ownKeys: Set<string> }

const joinWithinMs = 30_000

export async function startUp(start: UpStart): Promise<Service> {
  const { publicUrl, port } = start.settings
  if (publicUrl !== '' && port === 0) throw usageError('--port 0 takes any free port, and what --public-url names must lead to a known one')
  await using stack = new AsyncDisposableStack()
  const { createLocalHub } = await import('@muster/bus')
  const localHub = start.settings.natsUrl === '' ? createLocalHub({ log: start.log }) : undefined
  const ownKeys = new Set<string>()
  const controller = await startControllerOn(stack, {
    ...start,
    ...(localHub === undefined ? {} : { localHub }),
    ownWorkers: () => ownKeys,
    ...(start.firstModels === undefined ? {} : { firstModels: start.firstModels }),
  })
  const running = { ...controller, localUrl: localUrl({ host: start.settings.host, port: controller.controller.port }), localHub, ownKeys }
  await startWorkersOn(stack, running, start)
  start.print(await describeReady(running, start))
  // The last one first: workers say goodbye while the controller still hears them, the database goes at the end.
  const owned = stack.move()
  return { ended: running.controller.ended, stop: () => owned.disposeAsync() }
}

async function startWorkersOn(
  stack: AsyncDisposableStack,
  running: Running,
  { settings, env, log, clock, signal }: UpStart,
): Promise<void> {
  const workers: LocalWorker[] = []
  stack.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))))
  for (let number = 1; number <= settings.workers; number++) {
    signal.throwIfAborted()
    const name = settings.workers === 1 ? hostname() : `${hostname()}-${number}`
    const dataDir = join(running.dataDir, 'workers', String(number))
    const trust = (publicKey: string): void => void running.ownKeys.add(publicKey)
    const { localUrl: url, localHub } = running
    const { dockerConfig } = settings
    workers.push(
      await startLocalWorker({
        name,
        dataDir,
        url,
        dockerConfig,
        modelFiles: settings,
        env,
        localHub,
        trust,
        log: log.child({ worker: name }),
        clock,
      }),
    )
  }
  // One that an administrator refuses never joins; the rest is ready all the same.
  const done = new AbortController()
  const late = clock.sleep(joinWithinMs, AbortSignal.any([signal, done.signal])).then(() => log.warn('not all workers have joined yet'))
  await Promise.race([Promise.all(workers.map((worker) => worker.joined)), late]).finally(() => done.abort())
}

async function describeReady(
  { controller, dataDir, made, localUrl: here, localHub }: Running,
  { settings, given, env, version }: UpStart,
): Promise<string> {
  const files = secretFiles(dataDir)
  return readyMessage({
    version,
    url: controller.url,
    localUrl: here,
    dataDir,
    loginLink: (await controller.createLoginLink()).url,
    workers: settings.workers,
    bus: localHub === undefined ? 'nats' : 'local',
    adminKey: await findSecret({ name: 'MUSTER_ADMIN_KEY', given: settings.adminKey, file: files.adminKey, env }),
    joinToken: await findSecret({ name: 'MUSTER_JOIN_TOKEN', given: settings.joinToken, file: files.joinToken, env }),
    made,
    model: await controller.anyModel(),
    isOpen: controller.isInferenceOpen,
    given,
  })
}
