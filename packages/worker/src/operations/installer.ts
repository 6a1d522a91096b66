// The interface of an installer. Operations decide what runs and in which order; the installer does it, one call per backend
// at a time, several backends in parallel.
import type { Step } from '@muster/host'
import { FleetError, type BackendName, type Digest, type Failure, type InstalledBackend } from '@muster/protocol'
import type { WorkProgress } from '../work/reports.ts'
import type { ByteAccount } from './byte-budget.ts'

export type InstallRequest = Readonly<{
  /** The requested name, under which the backend is listed. */
  backend: BackendName
  /** `install`: no suitable version is there. `upgrade`, `reinstall`: the version in place is replaced, or proven to be the requested one. */
  mode: 'install' | 'upgrade' | 'reinstall'
  uri?: string | undefined
  /** Other sources of the same content, tried after `uri`. */
  mirrors?: readonly string[] | undefined
  /** The gallery's version; without one, the backend reports its own. */
  version?: string | undefined
  galleryUrl?: string | undefined
  digest?: Digest | undefined
  /** The concrete backend behind a meta name. */
  name?: BackendName | undefined
  alias?: BackendName | undefined
  strategy?: 'rolling' | 'recreate' | undefined
}>

export type InstallContext = Readonly<{
  /** Never waits and never throws: call it as often as you like. */
  onProgress: (progress: WorkProgress) => void
  /** The same for work that moves no byte: hashing, unpacking, waiting for a turn. Silent work counts as dead. */
  onSign: () => void
  /** The source asks for a pause of this length, for this reason. */
  onWait?: (reason: string, ms: number) => void
  step: Step
  /** On abort: stop soon and keep resumable content. */
  signal: AbortSignal
  /** Memory for bytes in transit, shared by all running work. */
  budget: ByteAccount
}>

export type InstallOutcome = Readonly<{ digest: Digest; version: string }>

/** Every method may throw FleetError; any other error is a bug and reported as `internal`. */
export interface Installer {
  /** The reason why this can never be installed here, from local knowledge; null: try. */
  refusal(request: InstallRequest): Promise<Failure | null>
  install(request: InstallRequest, context: InstallContext): Promise<InstallOutcome>
  /** The name in the inventory: this name, or that of the backend whose concrete name or alias it is. Null: not installed. */
  listedName(name: BackendName): Promise<BackendName | null>
  /** This and the following methods take the listed name only. A backend that is not installed is removed at once. */
  remove(backend: BackendName, context: InstallContext): Promise<void>
  /** With a digest: exactly that version, by the digest of its manifest or of the index that led to it. */
  isInstalled(backend: BackendName, digest?: Digest): Promise<boolean>
  /** Makes the inventory list the backend by this one of its digests; an unknown digest changes nothing. */
  listAs(backend: BackendName, digest: Digest): Promise<void>
  /** Reads every file. */
  verify(backend: BackendName, context: InstallContext): Promise<'intact' | 'damaged'>
  /** Stops processes that run from another version than the one in use; resolves when they have exited. */
  stopOutdated(backend: BackendName, context: InstallContext): Promise<void>
  /** Restores damaged files without changing the version. */
  repair(backend: BackendName, context: InstallContext): Promise<InstallOutcome>
  inventory(): Promise<readonly InstalledBackend[]>
  /** Removes unused content. Installs and removals do so themselves; this is for those that a crash interrupted. */
  tidy(signal: AbortSignal): Promise<void>
}

/** The installer of a worker that has no source of backends: nothing is installed, and every install is refused. */
export const noInstaller: Installer = {
  refusal: async ({ backend }) => nothingKnown(backend),
  install: async ({ backend }) => Promise.reject(new FleetError(nothingKnown(backend))),
  listedName: async () => null,
  remove: async () => undefined,
  isInstalled: async () => false,
  listAs: async () => undefined,
  verify: async () => 'damaged',
  stopOutdated: async () => undefined,
  repair: async (backend) => Promise.reject(new FleetError(nothingKnown(backend))),
  inventory: async () => [],
  tidy: async () => undefined,
}

const nothingKnown = (backend: BackendName): Failure => ({
  code: 'not_found',
  retry: 'never',
  message: `cannot install ${backend}: this worker has no source of backends`,
})
