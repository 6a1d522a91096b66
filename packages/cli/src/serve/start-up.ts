// Everything on one machine: a controller and its workers in this process, with an embedded database
// and an in-process bus unless others are named.
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { ControllerSettings } from '@muster/controller'
import type { Clock, Log } from '@muster/host'
import { abortable } from './abortable.ts'
import { localUrl } from './local-url.ts'
import { readyMessage } from './ready-message.ts'
import type { Service } from './run-service.ts'
import { placeOfSecret, secretFiles, startControllerOn } from './start-controller.ts'
import { type LocalWorker, startLocalWorker } from './start-local-worker.ts'

export interface UpStart {
  readonly settings: ControllerSettings & { readonly workers: number }
  readonly dataDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly version: string
  readonly log: Log
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly say: (text: string) => void
}

export async function startUp(start: UpStart): Promise<Service> {
  const { settings, env, log, clock, signal } = start
  await using stack = new AsyncDisposableStack()
  const { createLocalHub } = await import('@muster/bus')
  const localHub = settings.natsUrl === '' ? createLocalHub({ log }) : undefined
  const ownKeys = new Set<string>()
  const running = await startControllerOn(stack, { ...start, ...(localHub === undefined ? {} : { localHub }), ownWorkers: () => ownKeys })

  const url = reachedHere(running.controller.url, settings)
  const workers: LocalWorker[] = []
  stack.defer(async () => void (await Promise.all(workers.map((worker) => worker.stop()))))
  for (let number = 1; number <= settings.workers; number++) {
    signal.throwIfAborted()
    const name = settings.workers === 1 ? hostname() : `${hostname()}-${number}`
    const dataDir = join(running.dataDir, 'workers', String(number))
    workers.push(
      await startLocalWorker({
        name,
        dataDir,
        url,
        env,
        localHub,
        trust: (key) => ownKeys.add(key),
        log: log.child({ worker: name }),
        clock,
      }),
    )
  }
  await abortable(Promise.all(workers.map((worker) => worker.joined)), signal)

  const files = secretFiles(running.dataDir)
  start.say(
    readyMessage({
      version: start.version,
      url: running.controller.url,
      localUrl: url,
      dataDir: running.dataDir,
      loginLink: (await running.controller.createLoginLink()).url,
      workers: workers.length,
      bus: localHub === undefined ? 'nats' : 'local',
      adminKey: await placeOfSecret({ name: 'MUSTER_ADMIN_KEY', given: settings.adminKey, file: files.adminKey, env }),
      joinToken: await placeOfSecret({ name: 'MUSTER_JOIN_TOKEN', given: settings.joinToken, file: files.joinToken, env }),
      made: running.made,
    }),
  )
  const owned = stack.move()
  return { ended: new Promise(() => undefined), stop: () => owned.disposeAsync() }
}

/** Its own URL tells the port it got; a public one (a proxy's) does not. */
function reachedHere(ownUrl: string, { host, port, publicUrl }: ControllerSettings): string {
  return localUrl({ host, port: publicUrl === '' ? Number(new URL(ownUrl).port || 80) : port })
}
