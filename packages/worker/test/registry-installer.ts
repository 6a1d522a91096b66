// An installer with a store of its own, and a registry that does what a test tells it to.
import { silentLog, systemClock } from '@muster/host'
import { createFileClient, createOciClient, createOutbound, noCredentials, platformOf } from '@muster/source'
import { startHostileRegistry, type HostileRegistry } from '@muster/testkit'
import { createInstaller } from '../src/installer/create-installer.ts'
import type { OfferedGallery } from '../src/installer/find-source.ts'
import type { RoomDeps, StopProcesses } from '../src/installer/make-room.ts'
import { createByteBudget } from '../src/operations/byte-budget.ts'
import type { InstallContext, Installer } from '../src/operations/installer.ts'
import type { BackendStore } from '../src/storage/backend-store.ts'
import { makeTestStore, never, type TestStore } from './test-store.ts'

export const ownPlatform = platformOf({ platform: process.platform, arch: process.arch })

export interface RegistryInstaller extends AsyncDisposable {
  readonly registry: HostileRegistry
  readonly opened: TestStore
  readonly installer: Installer
  /** The offered backends; a test may add some. */
  readonly galleries: OfferedGallery[]
}

export async function startRegistryInstaller(): Promise<RegistryInstaller> {
  const registry = await startHostileRegistry()
  const opened = await makeTestStore()
  const galleries: OfferedGallery[] = []
  const installer = installerFrom(registry, { store: opened.store, galleries })
  return {
    registry,
    opened,
    installer,
    galleries,
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]()
      await registry.stop()
    },
  }
}

export type InstallerParts = Readonly<{
  store: BackendStore
  galleries?: readonly OfferedGallery[]
  stopProcesses?: StopProcesses
  relistProcesses?: NonNullable<RoomDeps['relistProcesses']>
}>

export function installerFrom(registry: HostileRegistry, { store, galleries = [], ...more }: InstallerParts): Installer {
  const outbound = createOutbound({ allow: [registry.host], clock: systemClock, log: silentLog })
  const oci = createOciClient({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog })
  const archives = createFileClient({ outbound, clock: systemClock, log: silentLog })
  return createInstaller({
    store,
    sources: () => ({ archives, oci, builtin: { images: oci, references: () => [] }, galleries: () => galleries }),
    platform: ownPlatform,
    node: () => ({ os: ownPlatform.os, arch: ownPlatform.arch, capability: 'default' }),
    clock: systemClock,
    log: silentLog,
    ...more,
  })
}

export const installContext = (): InstallContext => ({
  onProgress: () => undefined,
  onSign: () => undefined,
  step: () => undefined,
  signal: never,
  budget: createByteBudget({ totalBytes: 2 ** 24, minimumBytes: 2 ** 20 }).openAccount(),
})
