// Puts backends on this machine: finds where they come from, fetches and verifies them, unpacks them beside what is
// there, proves them, and only then makes them the version in use.
import type { Clock, Log } from '@muster/host'
import type { NodeTraits, OciClient, Outbound, Platform } from '@muster/source'
import { FleetError, unreachable, type BackendName, type Digest, type InstalledBackend } from '@muster/protocol'
import type { InstallContext, Installer, InstallOutcome, InstallRequest } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import type { InstalledRecord } from '../storage/installed-record.ts'
import { findSource, sourceProblem, type BackendSource, type GalleriesReader } from './find-source.ts'
import { pullArchive, takeFile } from './pull-archive.ts'
import { pullImage } from './pull-image.ts'

/** The ways out of this machine, and what is offered there. */
export interface Sources {
  readonly outbound: Outbound
  readonly oci: OciClient
  readonly galleries: GalleriesReader
}

export interface InstallerDeps {
  readonly store: BackendStore
  /** As the settings of the cluster have it now. */
  readonly sources: () => Sources
  readonly platform: Platform
  readonly node: () => NodeTraits
  readonly clock: Clock
  readonly log: Log
}

export function createInstaller(deps: InstallerDeps): Installer {
  const { store } = deps
  return {
    async refusal(request) {
      const message = sourceProblem(request)
      return message === null ? null : { code: 'invalid', retry: 'never', message }
    },
    install: (request, context) => install(deps, request, context),
    async remove(backend, { signal }) {
      const record = await find(store, backend)
      if (record !== null) await store.deactivate(record.name)
      await store.collect(signal)
    },
    async isInstalled(backend, digest) {
      const record = await find(store, backend)
      return record !== null && (digest === undefined || record.digest === digest) && (await store.summary(record.digest)) !== null
    },
    async verify(backend, { signal }) {
      const record = await find(store, backend)
      return record === null ? 'damaged' : await store.verify(record.digest, signal)
    },
    async repair(backend, context) {
      const record = await find(store, backend)
      if (record === null) throw notInstalled(backend)
      const summary = await store.summary(record.digest)
      if (summary === null || summary.layers.length === 0) {
        return await install(deps, { backend, mode: 'reinstall', uri: record.uri, digest: record.digest }, context)
      }
      await store.unpack(record.digest, summary.layers, { signal: context.signal, whenThere: 'mend' })
      return { digest: record.digest, version: record.version }
    },
    inventory: async () => (await store.list()).map(listed),
  }
}

async function install(deps: InstallerDeps, request: InstallRequest, context: InstallContext): Promise<InstallOutcome> {
  const { store, clock } = deps
  const { galleries, oci, outbound } = deps.sources()
  const source = await findSource(request, { galleries, node: deps.node(), signal: context.signal })
  const digest = await fetch({ store, oci, outbound, platform: deps.platform }, { source, request }, context)
  using held = new DisposableStack()
  held.use(store.hold([digest]))
  const summary = await store.summary(digest)
  const version = source.version || (summary?.backend?.version ?? '')
  // Proven: `unpack` refuses what has no entry that can be started. A start comes with serving.
  await store.activate({
    name: request.backend,
    is_meta: source.isMeta,
    concrete: source.concrete,
    alias: source.alias,
    version,
    digest,
    uri: source.uris[0],
    gallery_url: source.galleryUrl,
    installed_at: new Date(clock.now()).toISOString(),
  })
  await store.collect(context.signal)
  return { digest, version }
}

type Fetching = Readonly<{ store: BackendStore; oci: OciClient; outbound: Outbound; platform: Platform }>

async function fetch(
  deps: Fetching,
  { source, request }: { source: BackendSource; request: InstallRequest },
  context: InstallContext,
): Promise<Digest> {
  switch (source.kind) {
    case 'oci':
      return await pullImage(deps, { uris: source.uris, digest: request.digest ?? null }, context)
    case 'archive':
      return await pullArchive(deps, source, context)
    case 'file':
      return await takeFile(deps, source.uris[0], context)
    case 'builtin':
      throw new FleetError({
        code: 'incompatible',
        retry: 'never',
        message: `this version of the worker can't fetch built-in backends yet: ${source.uris[0]}`,
      })
    default:
      return unreachable(source.kind)
  }
}

/** By the name that was asked for, the concrete one, or the alias: they are one backend. */
async function find(store: BackendStore, name: BackendName): Promise<InstalledRecord | null> {
  const own = await store.get(name)
  if (own !== null) return own.current
  return (await store.list()).find((record) => record.concrete === name || record.alias === name) ?? null
}

const listed = (record: InstalledRecord): InstalledBackend => ({
  name: record.name,
  is_system: false,
  is_meta: record.is_meta,
  installed_at: record.installed_at,
  gallery_url: record.gallery_url,
  version: record.version,
  uri: record.uri,
  digest: record.digest,
})

const notInstalled = (backend: BackendName): FleetError =>
  new FleetError({ code: 'not_found', retry: 'never', message: `${backend} is not installed here` })
