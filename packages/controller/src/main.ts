// Starts and stops a controller.
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Log, version } from '@muster/host'
import { assemble, type ControllerDeps } from './assemble.ts'
import { createLoginLink } from './auth/login.ts'
import { ensureSecrets, type GeneratedSecrets } from './auth/secrets.ts'
import { type BuiltinBlobs, packBuiltins } from './builtin/builtin-blobs.ts'
import { connectBus } from './connect-bus.ts'
import { createDrain } from './drain.ts'
import { claimAddress } from './http/server.ts'
import { registerFirstModels } from './models/create-models.ts'
import { applySchedulingFile } from './models/scheduling-file.ts'
import { startPage } from './page/page.ts'
import { createRuntimeSettings, type RuntimeSettings } from './runtime-settings.ts'
import { galleriesOf } from './settings.ts'
import { openDatabase } from './store/open-database.ts'
import { createStore, type Store } from './store/store.ts'

export interface Controller {
  readonly url: string
  readonly port: number
  /** Secrets generated at this start, to be shown once. Resolves when the database is ready. */
  readonly made: Promise<GeneratedSecrets>
  /** Rejects with the cause when the controller fails; otherwise never settles. */
  readonly ended: Promise<never>
  /** Resolves when database and bus work; rejects when the controller ended before. */
  ready(signal?: AbortSignal): Promise<void>
  /** The first model by name; null: none. */
  anyModel(): Promise<string | null>
  /** /v1 needs no key. */
  readonly isInferenceOpen: boolean
  createLoginLink(): Promise<{ url: string; expires_at: string }>
  /**
   * Prepares a stop: /readyz answers 503, and after the drain delay no new connections are accepted. Resolves when no request is in
   * progress, or after the drain timeout. Everything else keeps running.
   */
  drain(): Promise<void>
  /** Ends requests in progress, without a drain. */
  stop(): Promise<void>
}

/** After this time a stop abandons the database. */
const stopPatienceMs = 2_500

const ownRoot = fileURLToPath(new URL('../../..', import.meta.url))
const ownBackends = fileURLToPath(new URL('../../../backends', import.meta.url))
/** Assembled backends, for all controllers of this clone. */
const ownCache = fileURLToPath(new URL('../../../.cache/backends', import.meta.url))
const ownModels = fileURLToPath(new URL('../../../models', import.meta.url))

export async function startController(given: ControllerDeps): Promise<Controller> {
  const runtime = createRuntimeSettings({ given: given.settings, explained: given.explained ?? [], log: given.log })
  return await startWith({ ...given, settings: runtime.settings }, runtime)
}

async function startWith(deps: ControllerDeps, runtime: RuntimeSettings): Promise<Controller> {
  const { settings, dataDir, log, clock } = deps
  const stopping = new AbortController()
  const drain = createDrain(deps, stopping.signal)
  await using undo = new AsyncDisposableStack()
  // Binds the address first, so that a port in use fails the start before anything is created.
  const address = await claimAddress(settings)
  undo.defer(() => address.release())
  const url = ownUrl({ ...settings, port: address.port }, networkInterfaces())
  const database = await openDatabase({ url: settings.databaseUrl, dataDir, log, clock, signal: deps.signal })
  undo.defer(() => database.close())
  const connected = await connectBus({ ...deps, signal: stopping.signal })
  undo.defer(() => connected.bus.close())

  const store = createStore(database.db, log)
  const builtin = packOwnBuiltins(deps)
  const page = startPage({
    ...{ root: ownRoot, caches: [join(ownRoot, '.cache/web'), dataDir.path('web')] },
    ...{ signal: stopping.signal, clock, log },
  })
  const parts = assemble({ ...deps, ...drain, runtime, connected, database, store, builtin, page, stopping: stopping.signal, url })
  // Serves before the database is ready: /healthz reports the process, /readyz its readiness.
  address.serve(parts.http, log)
  await dataDir.writeFile('endpoint', `${url}\n`)

  const made = database.prepare({
    signal: stopping.signal,
    afterwards: () => prepareContents(deps, { runtime, builtin, store }),
  })
  const running = made.then(() => logFailure(parts.run(stopping.signal), log))
  made.then(() => completeBuiltins(builtin, { signal: stopping.signal, log })).catch(() => undefined)
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined) // Awaiting it is optional.
  running.catch((error: unknown) => !stopping.signal.aborted && ended.reject(error))
  log.info('controller listening', { url, version, bus: connected.bus.kind })

  const owned = undo.move()
  return {
    url,
    port: address.port,
    made,
    ended: ended.promise,
    async ready(signal = stopping.signal) {
      while (!parts.isReady()) await Promise.race([clock.sleep(20, signal), ended.promise])
    },
    anyModel: () => database.waitFor(stopping.signal, async () => (await store.models.list())[0]?.name ?? null),
    isInferenceOpen: parts.isInferenceOpen,
    createLoginLink: () => database.waitFor(stopping.signal, () => createLoginLink({ access: store.access, url })),
    drain: () => drain.run(address),
    async stop() {
      stopping.abort()
      const done = new AbortController()
      clock.sleep(stopPatienceMs, done.signal).then(
        () => database.abandon(),
        () => undefined,
      )
      try {
        await Promise.all([address.release(), running.catch(() => undefined)])
        await owned.disposeAsync()
      } finally {
        done.abort()
      }
    },
  }
}

function packOwnBuiltins({ backendsDirectory = ownBackends, dataDir }: ControllerDeps): Promise<BuiltinBlobs> {
  const cache = backendsDirectory === ownBackends ? { cache: ownCache } : {}
  const packed = packBuiltins({ backends: backendsDirectory, models: ownModels, directory: dataDir.path('builtin'), ...cache })
  packed.catch(() => undefined) // `made` rejects with it.
  return packed
}

/** Runs after the start. A stop does not wait: an interrupted assembly is repeated. */
async function completeBuiltins(builtin: Promise<BuiltinBlobs>, deps: { signal: AbortSignal; log: Log }): Promise<void> {
  try {
    await (await builtin).complete(deps)
  } catch (error) {
    if (!deps.signal.aborted) deps.log.warn('cannot assemble the built-in backends', { error })
  }
}

/** Prepares galleries, intents, first models and secrets after the migration, before requests are served. */
async function prepareContents(
  { settings, dataDir, log, firstModels }: ControllerDeps,
  { runtime, builtin, store }: { runtime: RuntimeSettings; builtin: Promise<BuiltinBlobs>; store: Store },
): Promise<GeneratedSecrets> {
  runtime.set(await store.runtimeSettings.read())
  await builtin
  await store.galleries.syncSettings(galleriesOf(settings))
  const withdrawn = await store.reopen.withdrawFromAgents()
  if (withdrawn > 0) log.warn('intents for agent nodes cancelled', { count: withdrawn })
  if (firstModels !== undefined) await registerFirstModels(firstModels, { builtin: await builtin, models: store.models })
  await applySchedulingFile(settings.modelScheduling, { store: store.schedulingRules, log })
  return await ensureSecrets({ access: store.access, dataDir, given: settings })
}

async function logFailure(running: Promise<void>, log: Log): Promise<void> {
  try {
    await running
  } catch (error) {
    log.error('controller failed', { error })
    throw error
  }
}

type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>

const inUrl = (address: string): string => (address.includes(':') ? `[${address}]` : address)

function ownUrl(listen: { host: string; port: number; publicUrl: string }, interfaces: Interfaces): string {
  if (listen.publicUrl !== '') return listen.publicUrl.replace(/\/+$/, '')
  if (listen.host !== '0.0.0.0' && listen.host !== '::') return `http://${inUrl(listen.host)}:${listen.port}`
  const outward = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .find((address) => !address.internal && address.family === 'IPv4')
  return `http://${inUrl(outward?.address ?? '127.0.0.1')}:${listen.port}`
}
