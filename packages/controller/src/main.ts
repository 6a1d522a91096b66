// A controller from its first to its last moment.
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { version, type Log } from '@muster/host'
import { assemble, type ControllerDeps } from './assemble.ts'
import { ensureSecrets, type FirstStart } from './auth/first-start.ts'
import { createLoginLink } from './auth/login-link.ts'
import { packBuiltins, type BuiltinBlobs } from './builtin/builtin-blobs.ts'
import { connectBus } from './connect-bus.ts'
import { claimAddress } from './http/server.ts'
import { registerFirstModels } from './models/first-models.ts'
import { ownUrl } from './own-url.ts'
import { startPage } from './page/start-page.ts'
import { galleriesOf } from './settings.ts'
import { openDatabase } from './store/open-database.ts'
import { createStore, type Store } from './store/store.ts'

export interface Controller {
  readonly url: string
  readonly port: number
  /** What was made at this start, to be shown once. Resolves when the database is ready. */
  readonly made: Promise<FirstStart>
  /** Rejects when it can't go on, with the cause; otherwise never settles. */
  readonly ended: Promise<never>
  /** Resolves when database and bus work; rejects when it ended before. */
  ready(signal?: AbortSignal): Promise<void>
  /** The first by name of the models that can be asked; null when there is none. */
  anyModel(): Promise<string | null>
  /** /v1 needs no key. */
  readonly isInferenceOpen: boolean
  createLoginLink(): Promise<{ url: string; expires_at: string }>
  stop(): Promise<void>
}

/** After that long a stop waits for no answer of the database any more. */
const patienceMs = 2_500

const ownRoot = fileURLToPath(new URL('../../..', import.meta.url))
const ownBackends = fileURLToPath(new URL('../../../backends', import.meta.url))
/** Assembled backends, for all controllers of this clone. */
const ownCache = fileURLToPath(new URL('../../../.cache/backends', import.meta.url))
const ownModels = fileURLToPath(new URL('../../../models', import.meta.url))

export async function startController(deps: ControllerDeps): Promise<Controller> {
  const { settings, dataDir, log, clock } = deps
  const stopping = new AbortController()
  await using undo = new AsyncDisposableStack()
  // The address first: a port in use is noticed before anything is made. Requests are taken once there is something to answer them.
  const address = await claimAddress(settings)
  undo.defer(() => address.release())
  const url = ownUrl({ ...settings, port: address.port }, networkInterfaces())
  const database = await openDatabase({ url: settings.databaseUrl, dataDir, log, clock, signal: deps.signal })
  undo.defer(() => database.close())
  const connected = await connectBus({ ...deps, signal: stopping.signal })
  undo.defer(() => connected.bus.close())

  const store = createStore(database.db)
  const builtin = packOwn(deps)
  const page = startPage({
    ...{ root: ownRoot, caches: [join(ownRoot, '.cache/web'), dataDir.path('web')] },
    ...{ signal: stopping.signal, clock, log },
  })
  const parts = assemble({ ...deps, connected, database, store, builtin, page, stopping: stopping.signal, url })
  // It answers before the database is ready: /healthz tells that the process lives, /readyz that it can work.
  address.serve(parts.http, log)
  await dataDir.writeFile('endpoint', `${url}\n`)

  const made = database.prepare({
    signal: stopping.signal,
    afterwards: () => prepareContents(deps, { builtin, store }),
  })
  const running = made.then(() => toldWhenDead(parts.run(stopping.signal), log))
  made.then(() => completeOwn(builtin, { signal: stopping.signal, log })).catch(() => undefined)
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined) // nobody has to listen
  running.catch((error: unknown) => !stopping.signal.aborted && ended.reject(error))
  log.info('controller listens', { url, version, bus: connected.bus.kind })

  const owned = undo.move()
  return {
    url,
    port: address.port,
    made,
    ended: ended.promise,
    async ready(signal = stopping.signal) {
      while (!parts.isReady()) await Promise.race([clock.sleep(20, signal), ended.promise])
    },
    anyModel: async () => (await store.models.list())[0]?.name ?? null,
    isInferenceOpen: parts.isInferenceOpen,
    createLoginLink: () => createLoginLink({ access: store.access, url }),
    async stop() {
      stopping.abort()
      const done = new AbortController()
      clock.sleep(patienceMs, done.signal).then(
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

function packOwn({ backendsDirectory = ownBackends, dataDir }: ControllerDeps): Promise<BuiltinBlobs> {
  const cache = backendsDirectory === ownBackends ? { cache: ownCache } : {}
  const packed = packBuiltins({ backends: backendsDirectory, models: ownModels, directory: dataDir.path('builtin'), ...cache })
  packed.catch(() => undefined) // whoever waits for `made` learns of it
  return packed
}

/** After the start, which it would hold up. A stop does not wait for it: what is half done is done again. */
async function completeOwn(builtin: Promise<BuiltinBlobs>, deps: { signal: AbortSignal; log: Log }): Promise<void> {
  try {
    await (await builtin).complete(deps)
  } catch (error) {
    if (!deps.signal.aborted) deps.log.warn('what comes with Muster is not complete', { error })
  }
}

/** What has to be there before anybody is served, once the tables are. */
async function prepareContents(
  { settings, dataDir, log, firstModels }: ControllerDeps,
  { builtin, store }: { builtin: Promise<BuiltinBlobs>; store: Store },
): Promise<FirstStart> {
  await builtin
  await store.galleries.syncSettings(galleriesOf(settings))
  const withdrawn = await store.reopen.withdrawFromAgents()
  if (withdrawn > 0) log.warn('wishes for nodes that are agents now were cancelled', { rows: withdrawn })
  if (firstModels !== undefined) await registerFirstModels(firstModels, { builtin: await builtin, models: store.models })
  return await ensureSecrets({ access: store.access, dataDir, given: settings })
}

async function toldWhenDead(running: Promise<void>, log: Log): Promise<void> {
  try {
    await running
  } catch (error) {
    log.error('the controller can not go on', { error })
    throw error
  }
}
