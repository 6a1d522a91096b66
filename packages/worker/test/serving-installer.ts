// A worker's replicas and its installer over one store: the scripted backend comes as an image for two platforms from a
// registry that counts, is upgraded by commands, and runs as real processes.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Digest, InstalledBackend } from '@muster/protocol'
import { copyScriptedBackend, makeImage, makeIndex, makeTempDir, startHostileRegistry, tar, type HostileRegistry } from '@muster/testkit'
import type { Installer } from '../src/operations/installer.ts'
import { BackendCommand } from '../src/operations/journal.ts'
import { perform } from '../src/operations/run-operation.ts'
import { installContext, installerFrom, ownPlatform } from './registry-installer.ts'
import { startReplicas, type ReplicasWorld, type WorldOptions } from './replicas-world.ts'

/** One build under two digests: of its index, and of the manifest for this machine. */
export type Build = Readonly<{ index: Digest; manifest: Digest }>

export interface ServingInstaller extends AsyncDisposable {
  readonly world: ReplicasWorld
  readonly registry: HostileRegistry
  readonly installer: Installer
  publish(version: string, ballast?: Buffer): Promise<Build>
  /** How many requests of the registry it took, and which digest it came to. */
  carryOut(order: Readonly<Record<string, unknown>>): Promise<{ digest: string | undefined; requests: number }>
  /** As the inventory has it. */
  listed(): Promise<InstalledBackend | undefined>
}

const otherArch = ownPlatform.arch === 'arm64' ? 'amd64' : 'arm64'

export async function startServingInstaller(options: WorldOptions = {}): Promise<ServingInstaller> {
  const registry = await startHostileRegistry()
  const world = await startReplicas(options)
  const installer = installerFrom(registry, {
    store: world.store,
    stopProcesses: world.replicas.stopBackend,
    relistProcesses: world.replicas.relist,
  })
  return {
    world,
    registry,
    installer,
    publish: (version, ballast) => publish(registry, version, ballast),
    async carryOut(order) {
      const before = registry.requests.length
      const parsed = BackendCommand.parse({ kind: 'upgrade', backend: 'scripted', uri: `${registry.host}/a/scripted:1`, ...order })
      const { digest } = await perform(parsed, { installer, context: installContext() })
      return { digest, requests: registry.requests.length - before }
    },
    listed: async () => (await installer.inventory()).find(({ name }) => name === 'scripted'),
    async [Symbol.asyncDispose]() {
      await world[Symbol.asyncDispose]()
      await registry.stop()
    },
  }
}

async function publish(registry: HostileRegistry, version: string, ballast?: Buffer): Promise<Build> {
  await using temp = await makeTempDir('build')
  const directory = join(temp.path, 'backend')
  await copyScriptedBackend(directory, { version })
  const names = (await readdir(directory, { recursive: true })).toSorted()
  const entries = await Promise.all(
    names.map(async (path) => {
      const { mode } = await stat(join(directory, path))
      return (await stat(join(directory, path))).isDirectory() ? [] : [{ path, data: await readFile(join(directory, path)), mode }]
    }),
  )
  const files = [...entries.flat(), ...(ballast === undefined ? [] : [{ path: 'ballast', data: ballast }])]
  const [own, others] = [ownPlatform.arch, otherArch].map((architecture) =>
    makeImage({ layers: [tar(files)], compression: 'none', platform: { os: ownPlatform.os, architecture } }),
  )
  if (own === undefined || others === undefined) throw new Error('there are two')
  for (const image of [own, others]) registry.addImage('a/scripted', image)
  const index = makeIndex([own, others])
  registry.addManifest('a/scripted', index, '1')
  return { index: index.digest, manifest: own.manifest.digest }
}
