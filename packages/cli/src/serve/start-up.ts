// Starts a controller and its own workers in this process: `muster up`, and without workers `muster controller`. The
// database is embedded and the bus in-process unless others are configured.
import { existsSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { LocalHub } from '@muster/bus'
import type { Controller, ControllerSettings } from '@muster/controller'
import { abortable, type Clock, type ExplainedSetting, type Log, openDataDir, type Secret } from '@muster/host'
import type { ModelFileSettings } from '@muster/worker'
import { usageError } from '../cli-error.ts'
import type { CommandWriter } from '../output/command-writer.ts'
import type { GivenFlag } from './setting-options.ts'
import { readyMessage, type SecretLocation } from './ready-message.ts'
import type { Service } from './run-service.ts'
import { type LocalWorker, startLocalWorker } from './start-workers.ts'

export interface UpStart extends Omit<ControllerStart, 'localHub' | 'ownWorkers'> {
  readonly settings: ControllerSettings & { readonly workers: number } & Partial<ModelFileSettings>
  readonly given: readonly GivenFlag[]
  readonly version: string
  readonly print: (text: string) => void
  readonly commands: CommandWriter
}

type RunningStack = RunningController & {
  readonly localUrl: string
  readonly localHub: LocalHub | undefined
  readonly ownKeys: Set<string>
}

const joinWithinMs = 30_000

export async function startUp(start: UpStart): Promise<Service> {
  const { publicUrl, port } = start.settings
  if (publicUrl !== '' && port === 0) throw usageError('--public-url needs a fixed port: --port 0 takes any free one')
  await using stack = new AsyncDisposableStack()
  const { createLocalHub } = await import('@muster/bus')
  const localHub = start.settings.natsUrl === '' ? createLocalHub({ log: start.log }) : undefined
  const ownKeys = new Set<string>()
  const controller = await startControllerOn(stack, {
    ...start,
    ...(localHub === undefined ? {} : { localHub }),
    ownWorkers: () => ownKeys,
  })
  const running = { ...controller, localUrl: localUrl({ host: start.settings.host, port: controller.controller.port }), localHub, ownKeys }
  const workers = await startWorkersOn(stack, running, start)
  start.print(await abortable(describeReady(running, start), start.signal))
  // In reverse order: workers sign off while the controller still receives, the database stops last.
  const owned = stack.move()
  return {
    ended: running.controller.ended,
    drain: () => running.controller.drain(),
    stop: () => owned.disposeAsync(),
    kill: async () => void (await Promise.all(workers.map((worker) => worker.kill()))),
  }
}

async function startWorkersOn(
  stack: AsyncDisposableStack,
  running: RunningStack,
  { settings, env, log, clock, signal }: UpStart,
): Promise<readonly LocalWorker[]> {
  const workers: LocalWorker[] = []
  stack.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))))
  for (let number = 1; number <= settings.workers; number++) {
    signal.throwIfAborted()
    const name = settings.workers === 1 ? hostname() : `${hostname()}-${number}`
    const dataDir = join(running.dataDir, 'workers', String(number))
    const trust = (publicKey: string): void => void running.ownKeys.add(publicKey)
    const { localUrl: url, localHub } = running
    const start = { name, dataDir, url, settings, env, localHub, trust, log: log.child({ worker: name }), clock }
    workers.push(await startLocalWorker(start))
  }
  // A worker that an administrator refuses never joins; the others are ready without it.
  const done = new AbortController()
  const late = clock.sleep(joinWithinMs, AbortSignal.any([signal, done.signal])).then(() => log.warn('workers have not joined yet'))
  await Promise.race([Promise.all(workers.map((worker) => worker.joined)), late]).finally(() => done.abort())
  return workers
}

async function describeReady(
  { controller, dataDir, made, localUrl: here, localHub }: RunningStack,
  { settings, given, env, version, commands }: UpStart,
): Promise<string> {
  return readyMessage({
    version,
    url: controller.url,
    localUrl: here,
    dataDir,
    loginLink: (await controller.createLoginLink()).url,
    workers: settings.workers,
    bus: localHub === undefined ? 'nats' : 'local',
    adminKey: findSecret({ name: 'MUSTER_ADMIN_KEY', given: settings.adminKey, file: join(dataDir, 'admin.key') }, env),
    joinToken: findSecret({ name: 'MUSTER_JOIN_TOKEN', given: settings.joinToken, file: join(dataDir, 'join.token') }, env),
    made,
    model: await controller.anyModel(),
    isOpen: controller.isInferenceOpen,
    given,
    commands,
  })
}

export interface ControllerStart {
  readonly settings: ControllerSettings
  readonly env: Readonly<Record<string, string | undefined>>
  readonly explained: readonly ExplainedSetting[]
  readonly dataDir: string
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly localHub?: LocalHub
  readonly ownWorkers?: () => ReadonlySet<string>
  /** Built-in models that a new installation starts with. */
  readonly firstModels?: readonly string[]
}

export interface RunningController {
  readonly controller: Controller
  /** Absolute. */
  readonly dataDir: string
  readonly made: Awaited<Controller['made']>
}

/** `stack` takes all that has to be undone, also when the start fails. */
async function startControllerOn(
  stack: AsyncDisposableStack,
  { dataDir: path, signal, ...deps }: ControllerStart,
): Promise<RunningController> {
  const { checkSettings, startController } = await import('@muster/controller')
  checkSettings(deps.settings)
  const dataDir = stack.use(await openDataDir({ path, role: 'controller', clock: deps.clock, signal }))
  const controller = await startController({ ...deps, dataDir, signal })
  stack.defer(() => controller.stop())
  const made = await abortable(controller.made, signal)
  await controller.ready(signal)
  return { controller, dataDir: dataDir.root, made }
}

/** Finds a secret of the cluster on this machine: the environment wins over the file of an earlier start. */
function findSecret(
  { name, given, file }: { name: string; given: Secret | undefined; file: string },
  env: Readonly<Record<string, string | undefined>>,
): SecretLocation {
  if (env[name] !== undefined) return { variable: name }
  const named = env[`${name}_FILE`]
  if (named !== undefined) return { file: named }
  return given === undefined && existsSync(file) ? { file } : null
}

// Pure: how this machine itself reaches a controller that listens on `host`. An address that stands
// for all of them is reached through the loopback one.
export function localUrl({ host, port }: { host: string; port: number }): string {
  if (host === '0.0.0.0') return `http://127.0.0.1:${port}`
  if (host === '::') return `http://[::1]:${port}`
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
