// What operations need of whoever puts backends on this machine. They decide what is done and in which
// order; the installer does it, one call per backend at a time, several backends at once.
import { FleetError, type BackendName, type Digest, type Failure, type InstalledBackend, type Phase } from '@muster/protocol'
import type { ByteAccount } from './byte-budget.ts'

export type InstallRequest = Readonly<{
  /** The name that was asked for, and under which it is listed. */
  backend: BackendName
  /** `install`: nothing that would do is there. `upgrade`, `reinstall`: what is there is replaced, or proven to be what was asked. */
  mode: 'install' | 'upgrade' | 'reinstall'
  uri?: string
  /** Other places of the same content, tried after `uri`. */
  mirrors?: readonly string[]
  /** What the gallery says of it; where there is none, it is asked for its own. */
  version?: string
  galleryUrl?: string
  digest?: Digest
  /** The concrete backend behind a meta name. */
  name?: BackendName
  alias?: BackendName
  strategy?: 'rolling' | 'recreate'
}>

/** Bytes over everything there is to fetch; 0 while unknown. */
export type InstallProgress = Readonly<{ phase: Phase | null; fileName?: string; current?: number; total?: number }>

/** Told where an effect stands, by its name in the catalogue of failures; does nothing in production. */
export type Step = (name: string) => Promise<void> | void

export type InstallContext = Readonly<{
  /** Never waits and never throws: call it as often as you like. */
  onProgress: (progress: InstallProgress) => void
  /** The same for what goes on and moves no byte: hashing, unpacking, waiting for its turn. Who is silent is taken for dead. */
  onSign: () => void
  step: Step
  /** Stop soon, keep what can be resumed. */
  signal: AbortSignal
  /** Memory for bytes on their way, shared by all that runs at once. */
  budget: ByteAccount
}>

export type InstallOutcome = Readonly<{ digest: Digest; version: string }>

/** Everything may throw FleetError; what else is thrown is a bug and reported as `internal`. */
export interface Installer {
  /** Why this can never be installed here, from what is known without asking anybody; null: try. */
  refusal(request: InstallRequest): Promise<Failure | null>
  install(request: InstallRequest, context: InstallContext): Promise<InstallOutcome>
  /** Under which name it is listed: its own, or that of the one backend whose concrete name or alias this is. Null: none is. */
  listedName(name: BackendName): Promise<BackendName | null>
  /** From here on a backend goes by the name it is listed by, and no other. Removing what is not there is done at once. */
  remove(backend: BackendName, context: InstallContext): Promise<void>
  /** With a digest: exactly that one, whether of its manifest or of the index that led there. */
  isInstalled(backend: BackendName, digest?: Digest): Promise<boolean>
  /** From now on the inventory lists it by this one of its digests; another one changes nothing. */
  listAs(backend: BackendName, digest: Digest): Promise<void>
  /** Reads every file. */
  verify(backend: BackendName, context: InstallContext): Promise<'intact' | 'damaged'>
  /** Ends what runs from another version than the one in use; resolves when it is gone. */
  stopOutdated(backend: BackendName, context: InstallContext): Promise<void>
  /** Makes what is installed whole again, without changing its version. */
  repair(backend: BackendName, context: InstallContext): Promise<InstallOutcome>
  inventory(): Promise<readonly InstalledBackend[]>
  /** Removes what nothing needs. Installs and removals do so themselves; this is for those that a crash cut short. */
  tidy(signal: AbortSignal): Promise<void>
}

/** A worker that knows no source of backends: nothing is there, nothing can come, and it says so. */
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
  message: `this worker knows no source of backends, so it can't install ${backend}`,
})
