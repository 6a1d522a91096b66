// Puts backends on this machine: finds where they come from, fetches and verifies them, unpacks them beside what is
// there, proves them, and only then makes them the version in use.
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
import { storageFailureOf } from '../storage/disk-space.ts'
import { type Activation, type InstalledRecord, listedDigest, matchesDigest } from '../storage/records.ts'
import { createOutboundClients, type OutboundClientsDeps } from '../outbound-clients.ts'
import type { BuiltinSource } from './builtin-source.ts'
import { type BackendSource, findSource, type OfferedGallery, sourceProblem } from './find-source.ts'
import { collectGarbage, fetchWithRoom, type RoomDeps, stopAll, type StopProcesses } from './make-room.ts'
import { importLocal, pullArchive } from './pull-archive.ts'
import { type PulledImage, pullImage } from './pull-image.ts'

/** The ways out of this machine, and what is offered there. */
export interface Sources {
  readonly archives: FileClient
  readonly oci: OciClient
  /** Of what controllers serve themselves. */
  readonly builtin: Pick<BuiltinSource, 'images' | 'references'>
  readonly galleries: () => readonly OfferedGallery[]
}

export interface InstallerDeps extends RoomDeps {
  /** As the settings of the cluster have it now. */
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
    install: (request, context) => install(deps, request, context),
    listedName: (name) => listedName(store, name),
    async remove(backend, context) {
      await store.deactivate(backend)
      // A load may have taken it in between; from here on none can.
      await stopAll(deps, { backend, force: true, only: 'outdated' }, context)
      await collectGarbage(deps, context)
    },
    async isInstalled(backend, digest) {
      const record = await find(store, backend)
      if (record === null || (digest !== undefined && !matchesDigest(record, digest))) return false
      return (await store.summary(record.digest)) !== null
    },
    async verify(backend, { signal, onSign }) {
      const record = await find(store, backend)
      return record === null ? 'damaged' : await store.verify(record.digest, { signal, onSign })
    },
    async repair(backend, context) {
      const record = await find(store, backend)
      if (record === null) throw notInstalled(backend)
      await repair(deps, record, context)
      return { digest: listedDigest(record), version: record.version }
    },
    async listAs(backend, digest) {
      const record = await find(store, backend)
      if (record === null || !matchesDigest(record, digest)) return
      const renamed = { ...record, is_manifest_pinned: digest === record.digest }
      if (listedDigest(record) !== digest) await store.activate(renamed)
      // Also when it was listed so before: a worker that was killed in between has not told them.
      await relist(deps, renamed)
    },
    stopOutdated: (backend, context) => stopAll(deps, { backend, force: false, only: 'outdated' }, context),
    tidy: (signal) => collectGarbage(deps, { signal }),
    inventory: async () => (await store.list()).map(listed),
  }
}

async function install(deps: InstallerDeps, request: InstallRequest, context: InstallContext): Promise<InstallOutcome> {
  const { store } = deps
  const before = await findPreviousVersion(deps, request)
  const isHere = before !== null && (await isIntact(deps, before, context))
  const record = isHere ? before : await fetchNew(deps, { request, isDamagedHere: before !== null }, context)
  using held = new DisposableStack()
  held.use(store.hold([record.digest]))
  // Who asks for a fresh start, or for the old to go first, gets it; otherwise what runs goes on from its own tree.
  const isFresh = request.mode === 'reinstall' || request.strategy === 'recreate'
  if (isFresh) await stopAll(deps, { backend: request.backend, force: request.mode === 'reinstall' }, context)
  // Proven: `unpack` refuses what has no entry that can be started.
  await store.activate(record)
  await relist(deps, record)
  // A load may have taken the old version in between.
  if (isFresh) await stopAll(deps, { backend: request.backend, force: true, only: 'outdated' }, context)
  await collectGarbage(deps, context)
  return { digest: listedDigest(record), version: record.version }
}

async function relist({ relistProcesses }: InstallerDeps, record: InstalledRecord): Promise<void> {
  const names = [record.digest, ...(record.index_digest === null ? [] : [record.index_digest])]
  await relistProcesses?.({ names, listed: listedDigest(record) })
}

/** The one that was in use before, if it is the one that is asked for: as it will be listed. */
async function findPreviousVersion(
  { store, clock }: InstallerDeps,
  { backend, digest, mode }: InstallRequest,
): Promise<InstalledRecord | null> {
  if (digest === undefined || mode === 'reinstall') return null
  const previous = (await findActivation(store, backend))?.previous ?? null
  if (previous === null || !matchesDigest(previous, digest)) return null
  return { ...previous, is_manifest_pinned: digest === previous.digest, installed_at: new Date(clock.now()).toISOString() }
}

/** Without asking anybody: it was not touched, or it could be made whole from the blobs that are here. */
async function isIntact(deps: InstallerDeps, { digest }: InstalledRecord, context: InstallContext): Promise<boolean> {
  const { signal, onSign } = context
  return (await deps.store.verify(digest, { signal, onSign })) === 'intact' || (await rebuildFromBlobs(deps, digest, context))
}

type NewVersion = Readonly<{ request: InstallRequest; isDamagedHere: boolean }>

async function fetchNew(deps: InstallerDeps, { request, isDamagedHere }: NewVersion, context: InstallContext): Promise<InstalledRecord> {
  const { store, clock } = deps
  const { galleries } = deps.sources()
  const source = await findSource(request, { galleries: galleries(), node: deps.node(), signal: context.signal })
  const onExisting = request.mode === 'install' && !isDamagedHere ? {} : { onExisting: 'mend' as const }
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

type FetchRequest = Readonly<{ source: Pick<BackendSource, 'kind' | 'uris' | 'digest'>; onExisting?: 'mend' }>

/** What was fetched is what was asked for, or it throws. */
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

/** From the blobs that are here; where these are damaged or gone, from where the backend came. */
async function repair(deps: InstallerDeps, record: InstalledRecord, context: InstallContext): Promise<void> {
  if (await rebuildFromBlobs(deps, record.digest, context)) return
  const onExisting = 'mend'
  const kind = sourceKind(record.uri)
  if (kind === null) throw notInstalled(record.name)
  await fetchSource(deps, { source: { kind, uris: [record.uri], digest: record.digest }, onExisting }, context)
}

/** False: the blobs that it was made of are damaged, gone or not known. */
async function rebuildFromBlobs({ store }: InstallerDeps, tree: Digest, { signal, onSign }: InstallContext): Promise<boolean> {
  const layers = (await store.summary(tree))?.layers ?? []
  if (layers.length === 0) return false
  try {
    await store.unpack(tree, layers, { signal, onSign, onExisting: 'mend' })
    return true
  } catch (error) {
    signal.throwIfAborted()
    if (!['integrity', 'unavailable'].includes(failureOf(error).code)) throw error
    return false
  }
}

/** A concrete name or an alias that several backends have is none of theirs. */
async function listedName(store: BackendStore, name: BackendName): Promise<BackendName | null> {
  const records = await store.list()
  if (records.some((record) => record.name === name)) return name
  const [one, ...others] = records.filter((record) => record.concrete === name || record.alias === name)
  return one === undefined || others.length > 0 ? null : one.name
}

/** A record that can't be understood is none: what is installed over it replaces it. */
async function findActivation(store: BackendStore, name: BackendName): Promise<Activation | null> {
  return await store.get(name).catch((error: unknown) => {
    if (errorCode(error) !== undefined) throw storageFailureOf(error)
    return null
  })
}

const find = async (store: BackendStore, name: BackendName): Promise<InstalledRecord | null> =>
  (await findActivation(store, name))?.current ?? null

const listed = (record: InstalledRecord): InstalledBackend => ({
  name: record.name,
  is_system: false,
  is_meta: record.is_meta,
  installed_at: record.installed_at,
  gallery_url: record.gallery_url,
  version: record.version,
  uri: record.uri,
  digest: listedDigest(record),
})

const notInstalled = (backend: BackendName): FleetError =>
  new FleetError({ code: 'not_found', retry: 'never', message: `${backend} is not installed here` })

// The installer of a worker: its store in the data directory, and the ways out that the cluster's settings allow.

interface OpenInstallerOptions extends OutboundClientsDeps {
  readonly dataDir: DataDir
  /** What controllers serve themselves. */
  readonly builtin: BuiltinSource
  readonly node: () => NodeTraits
  readonly stopProcesses: StopProcesses
  readonly relistProcesses: NonNullable<RoomDeps['relistProcesses']>
  readonly step?: Step
}

interface OpenedInstaller {
  readonly installer: Installer
  readonly store: BackendStore
  close(): Promise<void>
}

export async function openInstaller(options: OpenInstallerOptions): Promise<OpenedInstaller> {
  const { dataDir, clock, log, node, step, stopProcesses, relistProcesses } = options
  const store = await openBackendStore({ root: dataDir.path('backends'), clock, log, ...(step === undefined ? {} : { step }) })
  const platform = platformOf({ platform: process.platform, arch: process.arch })
  const installer = createInstaller({ store, sources: createSources(options), platform, node, stopProcesses, relistProcesses, clock, log })
  return { installer, store, close: () => store.close() }
}

function createSources({ cluster, builtin, ...deps }: OpenInstallerOptions): () => Sources {
  const waysOut = createOutboundClients({ cluster, ...deps })
  return () => {
    const { outbound, oci, files } = waysOut()
    const read = createGalleryReader({ outbound, readBuiltin: builtin.readGallery })
    const galleries: Sources['galleries'] = () =>
      (cluster()?.galleries ?? [])
        .filter(({ kind }) => kind === 'backend')
        .map(({ name, url }) => ({ name, url, read: (signal) => read({ name, url }, signal) }))
    return { archives: files, oci, builtin, galleries }
  }
}
