// An installer that keeps its backends in memory and follows a test's script: take its time, fail, or block until it is
// cancelled.
import { BackendName, Digest, FleetError, type Failure, type InstalledBackend } from '@muster/protocol'
import type { InstallContext, Installer, InstallRequest } from '../src/operations/installer.ts'

export type Behaviour = (context: InstallContext) => Promise<void>
export type Call = Readonly<{ what: 'install' | 'remove' | 'verify' | 'repair'; backend: BackendName; request?: InstallRequest }>

export interface ScriptedInstaller extends Installer {
  readonly calls: Call[]
  readonly installed: Map<BackendName, InstalledBackend>
  readonly damaged: Set<BackendName>
  /** Other names of what is installed. */
  readonly aliases: Map<BackendName, BackendName>
  /** The behavior of installs, repairs and removals of a backend; default: succeed at once. */
  readonly script: Map<BackendName, Behaviour>
  readonly refusals: Map<BackendName, Failure>
  /** Says that it installed, and does not. */
  isLying: boolean
  mostAtOnce(): number
}

export const backendName = (text: string): BackendName => BackendName.parse(text)
export const digestOf = (n: number): Digest => Digest.parse(`sha256:${n.toString(16).padStart(64, '0')}`)

export function createScriptedInstaller(): ScriptedInstaller {
  const [calls, installed, damaged] = [[] as Call[], new Map<BackendName, InstalledBackend>(), new Set<BackendName>()]
  const script = new Map<BackendName, Behaviour>()
  let running = 0
  let most = 0
  const work = async (call: Call, context: InstallContext): Promise<void> => {
    calls.push(call)
    running += 1
    most = Math.max(most, running)
    try {
      await script.get(call.backend)?.(context)
      context.signal.throwIfAborted()
    } finally {
      running -= 1
    }
  }
  const record = (backend: BackendName, digest: Digest): void =>
    void installed.set(backend, { name: backend, ...blank, digest, version: `v${Number.parseInt(digest.slice(-8), 16)}` })
  const outcomeOf = (backend: BackendName) => {
    const found = installed.get(backend)
    return { digest: Digest.parse(found?.digest), version: found?.version ?? '' }
  }
  const installer: ScriptedInstaller = {
    calls,
    installed,
    damaged,
    aliases: new Map(),
    script,
    refusals: new Map(),
    isLying: false,
    mostAtOnce: () => most,
    refusal: async ({ backend }) => installer.refusals.get(backend) ?? null,
    async install(request, context) {
      const { backend, digest = digestOf(1) } = request
      await work({ what: 'install', backend, request }, context)
      if (installer.isLying) return { digest, version: 'v-lie' }
      record(backend, digest)
      damaged.delete(backend)
      return outcomeOf(backend)
    },
    async listedName(name) {
      const other = installer.aliases.get(name)
      return installed.has(name) ? name : other !== undefined && installed.has(other) ? other : null
    },
    async remove(backend, context) {
      await work({ what: 'remove', backend }, context)
      installed.delete(backend)
    },
    isInstalled: async (backend, digest) => installed.has(backend) && (digest === undefined || installed.get(backend)?.digest === digest),
    listAs: async () => undefined,
    stopOutdated: async () => undefined,
    async verify(backend) {
      calls.push({ what: 'verify', backend })
      return damaged.has(backend) ? 'damaged' : 'intact'
    },
    async repair(backend, context) {
      await work({ what: 'repair', backend }, context)
      damaged.delete(backend)
      return outcomeOf(backend)
    },
    inventory: async () => [...installed.values()],
    tidy: async () => undefined,
  }
  return installer
}

const blank = { is_system: false, is_meta: false, installed_at: '2026-01-01T00:00:00Z', gallery_url: '', uri: '' }

export interface Gate {
  readonly behaviour: Behaviour
  /** The number of arrivals. */
  arrived(): number
  open(): void
}

/** Work waits at it until it is opened or the work is cancelled. */
export function createGate(): Gate {
  const opened = Promise.withResolvers<void>()
  let arrived = 0
  return {
    arrived: () => arrived,
    open: opened.resolve,
    async behaviour({ signal }) {
      arrived += 1
      const off = Promise.withResolvers<never>()
      signal.addEventListener('abort', () => off.reject(signal.reason), { once: true })
      signal.throwIfAborted()
      await Promise.race([opened.promise, off.promise])
    },
  }
}

export const failing =
  (failure: Failure): Behaviour =>
  async () => {
    throw new FleetError(failure)
  }
