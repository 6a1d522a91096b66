// The installer of a worker: its store in the data directory, and the ways out that the cluster's settings allow.
import type { Clock, DataDir, Log } from '@muster/host'
import {
  createArchiveClient,
  createGalleryReader,
  createOciClient,
  createOutbound,
  dockerCredentials,
  noCredentials,
  platformOf,
  type NodeTraits,
} from '@muster/source'
import type { WorkerSettings as ClusterSettings } from '@muster/protocol'
import type { Installer, Step } from '../operations/installer.ts'
import { openBackendStore, type BackendStore } from '../storage/backend-store.ts'
import type { BuiltinSource } from './builtin-source.ts'
import { createInstaller, type Sources, type StopProcesses } from './create-installer.ts'

export interface OpenInstallerOptions {
  readonly dataDir: DataDir
  /** What the last session said; null before the first. */
  readonly cluster: () => ClusterSettings | null
  /** What this machine's operator allows beside. */
  readonly allowSource: readonly string[]
  /** A file like Docker's config.json; empty: none. */
  readonly dockerConfig: string
  /** What controllers serve themselves. */
  readonly builtin: BuiltinSource
  readonly node: () => NodeTraits
  readonly stopProcesses: StopProcesses
  readonly step?: Step
  readonly clock: Clock
  readonly log: Log
}

export interface OpenedInstaller {
  readonly installer: Installer
  readonly store: BackendStore
  close(): Promise<void>
}

export async function openInstaller(options: OpenInstallerOptions): Promise<OpenedInstaller> {
  const { dataDir, clock, log, node, step, stopProcesses } = options
  const store = await openBackendStore({ root: dataDir.path('backends'), clock, log, ...(step === undefined ? {} : { step }) })
  const platform = platformOf({ platform: process.platform, arch: process.arch })
  const installer = createInstaller({ store, sources: createSources(options), platform, node, stopProcesses, clock, log })
  return { installer, store, close: () => store.close() }
}

/** Made anew when the list of allowed sources changes. */
function createSources({ cluster, allowSource, dockerConfig, builtin, clock, log }: OpenInstallerOptions): () => Sources {
  let made: { key: string; sources: Sources } | null = null
  return () => {
    const allow = [...new Set([...(cluster()?.allow_source ?? []), ...allowSource])]
    const key = allow.join(' ')
    if (made?.key === key) return made.sources
    const outbound = createOutbound({ allow, clock, log })
    const oci = createOciClient({
      outbound,
      credentials: dockerConfig === '' ? noCredentials : dockerCredentials({ path: dockerConfig, log }),
      clock,
      log,
    })
    const read = createGalleryReader({ outbound, readBuiltin: builtin.readGallery })
    const galleries: Sources['galleries'] = () =>
      (cluster()?.galleries ?? [])
        .filter(({ kind }) => kind === 'backend')
        .map(({ name, url }) => ({ name, url, read: (signal) => read({ name, url }, signal) }))
    made = { key, sources: { archives: createArchiveClient({ outbound, clock, log }), oci, builtin, galleries } }
    return made.sources
  }
}
