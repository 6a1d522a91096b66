// The installer: finds the source of a backend, fetches and verifies it, unpacks it beside the active version, and only
// then activates it. storage/design.md numbers the steps.
import { type Clock, type DataDir, errorCode, type Step } from '@muster/host'
import { type BackendName, type Digest, failureOf, FleetError, type InstalledBackend, unreachable } from '@muster/protocol'
import {
  createGalleryReader,
  type FileClient,
  type NodeTraits,
  type OciClient,
  parseReference,
  type Platform,
  platformOf,
  sourceKind,
} from '@muster/source'
import type { InstallContext, Installer, InstallOutcome, InstallRequest } from '../operations/installer.ts'
import { type BackendStore, openBackendStore } from '../storage/backend-store.ts'
import { fetchFailureOf, storageFailureOf, withStorageFailures } from '../storage/disk-space.ts'
import { type Activation, type InstalledRecord, listedDigest, matchesDigest } from '../storage/records.ts'
import type { Threads } from '../storage/threads.ts'
import { createOutboundClients, type OutboundClientsDeps } from '../outbound-clients.ts'
import type { BuiltinSource } from './builtin-source.ts'
import { type BackendSource, findSource, type OfferedGallery, sourceProblem } from './find-source.ts'
import { collectGarbage, fetchWithRoom, type RoomDeps, stopAll, type StopProcesses } from './make-room.ts'
import { importLocal, pullArchive } from './pull-archive.ts'
import { type PulledImage, pullImage } from './pull-image.ts'

/** Clients for all sources, and the galleries. */
export interface Sources {
  readonly archives: FileClient
  readonly oci: OciClient
  /** Content served by the controllers. */
  readonly builtin: Pick<BuiltinSource, 'images' | 'references'>
  readonly galleries: () => readonly OfferedGallery[]
}

export interface InstallerDeps extends RoomDeps {
  /** By the current settings of the cluster. */
  readonly sources: () => Sources
  readonly platform: Platform
  readonly node: () => NodeTraits
  readonly clock: Clock
}

export function createInstaller(deps: InstallerDeps): Installer {
  const { store } = deps
  return {
    async refusal(request) {
      const message = sourceProblem(request)
      return message === null ? null : { code: 'invalid', retry: 'never', message }
    },
    install: (request, context) => withStorageFailures(install(deps, request, context)),
    listedName: (name) => listedName(store, name),
    async remove(backend, context) {
      await store.deactivate(backend)
      // A load may have started a process in the meantime; from here on none can.
      await stopAll(deps, { backend, force: true, only: 'outdated' }, context)
      await collectGarbage(deps, context)
    },
    async isInstalled(backend, digest) {
      const record = await findRecord(store, backend)
      if (record === null || (digest !== undefined && !matchesDigest(record, digest))) return false
      return (await store.condition(record.digest)) !== 'missing'
    },
    async verify(backend, { signal, onSign }) {
      const record = await findRecord(store, backend)
      return record === null ? 'damaged' : await store.verify(record.digest, { signal, onSign })
    },
    async repair(backend, context) {
      const record = await findRecord(store, backend)
      if (record === null) throw notInstalled(backend)
      await withStorageFailures(repair(deps, record, context))
      return { digest: listedDigest(record), version: record.version }
    },
    async listAs(backend, digest) {
      const record = await findRecord(store, backend)
      if (record === null || !matchesDigest(record, digest)) return
      const renamed = { ...record, is_manifest_pinned: digest === record.digest }
      if (listedDigest(record) !== digest) await store.activate(renamed)
      // Also when the listing did not change: a worker killed in between has not updated its processes.
      await relist(deps, renamed)
    },
    stopOutdated: (backend, context) => stopAll(deps, { backend, force: false, only: 'outdated' }, context),
    tidy: (signal) => collectGarbage(deps, { signal }),
    inventory: async () => await Promise.all((await store.list()).map((record) => toInstalledBackend(store, record))),
  }
}

/** The numbers are those of storage/design.md. */
async function install(deps: InstallerDeps, request: InstallRequest, context: InstallContext): Promise<InstallOutcome> {
  const { store } = deps
  // 1. A requested previous version is used from this disk.
  const previous = await findPreviousVersion(deps, request)
  const isUsable = previous !== null && (await isIntact(deps, previous, context))
  // 2–6. Any other version is fetched and unpacked.
  const record = isUsable ? previous : await fetchNew(deps, { request, isDamaged: previous !== null }, context)
  using held = new DisposableStack()
  held.use(store.hold([record.digest]))
  // 7. Reinstall and recreate stop running processes; otherwise these continue from their own tree.
  const isFresh = request.mode === 'reinstall' || request.strategy === 'recreate'
  if (isFresh) await stopAll(deps, { backend: request.backend, force: request.mode === 'reinstall' }, context)
  // 8. `unpack` has checked that the tree has a program to start.
  await store.activate(record)
  // 9. A load may have started the old version in the meantime.
  await relist(deps, record)
  if (isFresh) await stopAll(deps, { backend: request.backend, force: true, only: 'outdated' }, context)
  // 10.
  await collectGarbage(deps, context)
  return { digest: listedDigest(record), version: record.version }
}

async function relist({ relistProcesses }: InstallerDeps, record: InstalledRecord): Promise<void> {
  const names = [record.digest, ...(record.index_digest === null ? [] : [record.index_digest])]
  await relistProcesses?.({ names, listed: listedDigest(record) })
}

/** The previous version, if it is the requested one, with the digest under which it will be listed. */
async function findPreviousVersion(
  { store, clock }: InstallerDeps,
  { backend, digest, mode }: InstallRequest,
): Promise<InstalledRecord | null> {
  if (digest === undefined || mode === 'reinstall') return null
  const previous = (await findActivation(store, backend))?.previous ?? null
  if (previous === null || !matchesDigest(previous, digest)) return null
  return { ...previous, is_manifest_pinned: digest === previous.digest, installed_at: new Date(clock.now()).toISOString() }
}

/** Works offline: the tree is undamaged, or was rebuilt from stored blobs. */
async function isIntact(deps: InstallerDeps, { digest }: InstalledRecord, context: InstallContext): Promise<boolean> {
  const { signal, onSign } = context
  return (await deps.store.verify(digest, { signal, onSign })) === 'intact' || (await rebuildFromBlobs(deps, digest, context))
}

type NewVersion = Readonly<{ request: InstallRequest; isDamaged: boolean }>

/** The failure of the source is marked as such: another node would fail in the same way. */
async function fetchNew(deps: InstallerDeps, version: NewVersion, context: InstallContext): Promise<InstalledRecord> {
  try {
    return await fetchVersion(deps, version, context)
  } catch (error) {
    throw error instanceof FleetError ? new FleetError(fetchFailureOf(error, 'backend'), { cause: error }) : error
  }
}

async function fetchVersion(deps: InstallerDeps, { request, isDamaged }: NewVersion, context: InstallContext): Promise<InstalledRecord> {
  const { store, clock } = deps
  const { galleries } = deps.sources()
  // 2.
  const source = await findSource(request, { galleries: galleries(), node: deps.node(), signal: context.signal })
  const onExisting = request.mode === 'install' && !isDamaged ? {} : { onExisting: 'repair' as const }
  // 3–6., again after each step that made room.
  const { digest, indexDigest } = await fetchWithRoom(
    deps,
    { request, fetch: () => fetchSource(deps, { source, ...onExisting }, context) },
    context,
  )
  using held = new DisposableStack()
  held.use(store.hold([digest]))
  const summary = await store.summary(digest)
  return {
    name: request.backend,
    is_meta: source.isMeta,
    concrete: source.concrete,
    alias: source.alias,
    version: source.version || (summary?.backend?.version ?? ''),
    digest,
    index_digest: indexDigest,
    is_manifest_pinned: false,
    uri: source.uris[0],
    gallery_url: source.galleryUrl,
    installed_at: new Date(clock.now()).toISOString(),
  }
}

type FetchRequest = Readonly<{ source: Pick<BackendSource, 'kind' | 'uris' | 'digest'>; onExisting?: 'repair' }>

/** Throws unless the fetched content has the requested digest. */
async function fetchSource(deps: InstallerDeps, { source, ...onExisting }: FetchRequest, context: InstallContext): Promise<PulledImage> {
  const { store, platform, clock } = deps
  const { oci, builtin, archives } = deps.sources()
  const { kind, uris, digest } = source
  const [uri] = uris
  switch (kind) {
    case 'oci':
      return await pullImage({ store, oci, platform, clock }, { references: uris.map(parseReference), digest, ...onExisting }, context)
    case 'builtin':
      return await pullImage(
        { store, oci: builtin.images, platform, clock },
        { references: uris.flatMap(builtin.references), digest, ...onExisting },
        context,
      )
    case 'archive':
      return { digest: await pullArchive({ store, archives, clock }, { uris, digest, ...onExisting }, context), indexDigest: null }
    case 'file':
      return { digest: await importLocal(store, { uri, digest, ...onExisting }, context), indexDigest: null }
    default:
      return unreachable(kind)
  }
}

/** Rebuilds from stored blobs or, when these are damaged or gone, from the source of the backend. */
async function repair(deps: InstallerDeps, record: InstalledRecord, context: InstallContext): Promise<void> {
  if (await rebuildFromBlobs(deps, record.digest, context)) return
  const onExisting = 'repair'
  const kind = sourceKind(record.uri)
  if (kind === null) throw notInstalled(record.name)
  await fetchSource(deps, { source: { kind, uris: [record.uri], digest: record.digest }, onExisting }, context)
}

/** Repairs the active version without any network access; false when its content is not on this machine. */
async function repairLocally(deps: InstallerDeps, backend: BackendName, signal: AbortSignal): Promise<boolean> {
  const record = await findRecord(deps.store, backend)
  if (record === null) return false
  if (await rebuildFromBlobs(deps, record.digest, { signal })) return true
  if (sourceKind(record.uri) !== 'file') return false
  const quiet = { signal, onProgress: () => undefined, onSign: () => undefined }
  return (await importLocal(deps.store, { uri: record.uri, digest: record.digest, onExisting: 'repair' }, quiet)) === record.digest
}

type RebuildContext = Pick<InstallContext, 'signal'> & Partial<Pick<InstallContext, 'onSign'>>

/** False when the blobs of the tree are damaged, gone or unknown. */
async function rebuildFromBlobs({ store }: InstallerDeps, tree: Digest, { signal, onSign }: RebuildContext): Promise<boolean> {
  const layers = (await store.summary(tree))?.layers ?? []
  if (layers.length === 0) return false
  try {
    await store.unpack(tree, layers, { signal, ...(onSign === undefined ? {} : { onSign }), onExisting: 'repair' })
    return true
  } catch (error) {
    signal.throwIfAborted()
    if (!['integrity', 'unavailable'].includes(failureOf(error).code)) throw error
    return false
  }
}

/** A concrete name or an alias that several backends share names none of them. */
async function listedName(store: BackendStore, name: BackendName): Promise<BackendName | null> {
  const records = await store.list()
  if (records.some((record) => record.name === name)) return name
  const [one, ...others] = records.filter((record) => record.concrete === name || record.alias === name)
  return one === undefined || others.length > 0 ? null : one.name
}

/** A malformed record counts as none: the next install replaces it. */
async function findActivation(store: BackendStore, name: BackendName): Promise<Activation | null> {
  return await store.get(name).catch((error: unknown) => {
    if (errorCode(error) !== undefined) throw storageFailureOf(error)
    return null
  })
}

const findRecord = async (store: BackendStore, name: BackendName): Promise<InstalledRecord | null> =>
  (await findActivation(store, name))?.current ?? null

const toInstalledBackend = async (store: BackendStore, record: InstalledRecord): Promise<InstalledBackend> => ({
  name: record.name,
  is_system: false,
  is_meta: record.is_meta,
  installed_at: record.installed_at,
  gallery_url: record.gallery_url,
  version: record.version,
  uri: record.uri,
  digest: listedDigest(record),
  ...((await store.condition(record.digest)) === 'intact' ? {} : { damaged: true }),
})

const notInstalled = (backend: BackendName): FleetError =>
  new FleetError({ code: 'not_found', retry: 'never', message: `${backend} is not installed here` })

interface OpenInstallerOptions extends OutboundClientsDeps {
  readonly dataDir: DataDir
  readonly threads: Threads
  /** Content served by the controllers. */
  readonly builtin: BuiltinSource
  readonly node: () => NodeTraits
  readonly stopProcesses: StopProcesses
  readonly relistProcesses: NonNullable<RoomDeps['relistProcesses']>
  readonly step?: Step | undefined
}

/** Opens the store in the data directory and creates the installer with clients by the settings of the cluster. */
export async function openInstaller(options: OpenInstallerOptions) {
  const { dataDir, threads, clock, log, node, step, stopProcesses, relistProcesses } = options
  const store = await openBackendStore({
    ...{ root: dataDir.path('backends'), threads, clock, log, step },
    isDiskWarned: () => options.cluster()?.disk_check === 'warn',
  })
  const platform = platformOf({ platform: process.platform, arch: process.arch })
  const deps = { store, sources: createSources(options), platform, node, stopProcesses, relistProcesses, clock, log }
  return {
    installer: createInstaller(deps),
    store,
    repairLocally: (backend: BackendName, signal: AbortSignal): Promise<boolean> => repairLocally(deps, backend, signal),
  }
}

function createSources({ cluster, builtin, ...deps }: OpenInstallerOptions): () => Sources {
  const outboundClients = createOutboundClients({ cluster, ...deps })
  return () => {
    const { outbound, oci, files } = outboundClients()
    const read = createGalleryReader({ outbound, readBuiltin: builtin.readGallery })
    const galleries: Sources['galleries'] = () =>
      (cluster()?.galleries ?? [])
        .filter(({ kind }) => kind === 'backend')
        .map(({ name, url }) => ({ name, url, read: (signal) => read({ name, url }, signal) }))
    return { archives: files, oci, builtin, galleries }
  }
}
