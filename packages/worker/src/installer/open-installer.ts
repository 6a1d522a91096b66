// The installer of a worker: its store in the data directory, and the ways out that the cluster's settings allow.
import type { DataDir } from '@muster/host'
import { createGalleryReader, platformOf, type NodeTraits } from '@muster/source'
import type { Installer, Step } from '../operations/installer.ts'
import { openBackendStore, type BackendStore } from '../storage/backend-store.ts'
import type { BuiltinSource } from './builtin-source.ts'
import { createWaysOut, type WaysOutDeps } from '../ways-out.ts'
import { createInstaller, type Sources } from './create-installer.ts'
import type { RoomDeps, StopProcesses } from './make-room.ts'

export interface OpenInstallerOptions extends WaysOutDeps {
  readonly dataDir: DataDir
  /** What controllers serve themselves. */
  readonly builtin: BuiltinSource
  readonly node: () => NodeTraits
  readonly stopProcesses: StopProcesses
  readonly relistProcesses: NonNullable<RoomDeps['relistProcesses']>
  readonly step?: Step
}

export interface OpenedInstaller {
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
  const waysOut = createWaysOut({ cluster, ...deps })
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
