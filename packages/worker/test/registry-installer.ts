// An installer with a store of its own, and a registry that does what a test tells it to.
import { silentLog, systemClock } from '@muster/host'
import { createFileClient, createOciClient, createOutbound, noCredentials, platformOf } from '@muster/source'
import { startHostileRegistry, type HostileRegistry } from '@muster/testkit'
import { createInstaller } from '../src/installer/create-installer.ts'
import type { OfferedGallery } from '../src/installer/find-source.ts'
import type { Installer } from '../src/operations/installer.ts'
import { makeTestStore, type TestStore } from './test-store.ts'

export const ownPlatform = platformOf({ platform: process.platform, arch: process.arch })

export interface RegistryInstaller extends AsyncDisposable {
  readonly registry: HostileRegistry
  readonly opened: TestStore
  readonly installer: Installer
  /** What is offered; a test may add to it. */
  readonly galleries: OfferedGallery[]
}

export async function startRegistryInstaller(): Promise<RegistryInstaller> {
  const registry = await startHostileRegistry()
  const opened = await makeTestStore()
  const galleries: OfferedGallery[] = []
  const outbound = createOutbound({ allow: [registry.host], clock: systemClock, log: silentLog })
  const oci = createOciClient({ outbound, credentials: noCredentials, clock: systemClock, log: silentLog })
  const archives = createFileClient({ outbound, clock: systemClock, log: silentLog })
  const installer = createInstaller({
    store: opened.store,
    sources: () => ({ archives, oci, builtin: { images: oci, references: () => [] }, galleries: () => galleries }),
    platform: ownPlatform,
    node: () => ({ os: ownPlatform.os, arch: ownPlatform.arch, capability: 'default' }),
    clock: systemClock,
    log: silentLog,
  })
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
