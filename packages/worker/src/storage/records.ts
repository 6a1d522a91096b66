// Paths of the backend store (design.md), and its records, each one small JSON file:
//   backends/<name>/current   the installed version of a backend and the one before it (activations)
//   pulls/<hex>               the blobs that an unfinished install needs (pulls)
import { open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { type Clock, ifMissing, isTemporary, type Log, makeDirectory, newId, type Step, temporaryName } from '@muster/host'
import { BackendName, Digest } from '@muster/protocol'
import { fileSize } from './blobs.ts'
import { syncPath } from './unpack/sync.ts'

/** Downloads of an unfinished install are kept for this long: longer than any pause between two tries. */
export const partialKeptMs = 7 * 24 * 3600_000

export type Layout = ReturnType<typeof layoutOf>

/** Names of blobs and trees are digests and names of backends are BackendName, so that no path can leave the root. */
export function layoutOf(root: string) {
  const incoming = join(root, 'incoming')
  const pulls = join(root, 'pulls')
  const blobs = join(root, 'blobs', 'sha256')
  const trees = join(root, 'trees', 'sha256')
  const backends = join(root, 'backends')
  return {
    root,
    incoming,
    pulls,
    blobs,
    trees,
    backends,
    /** Unfinished work; emptied at every start. */
    staging: join(root, 'staging'),
    pull: (tree: Digest) => join(pulls, digestHex(tree)),
    incomingFile: (digest: Digest) => join(incoming, digestHex(digest)),
    blob: (digest: Digest) => join(blobs, digestHex(digest)),
    tree: (digest: Digest) => join(trees, digestHex(digest)),
    backend: (name: BackendName) => join(backends, name),
  }
}

/** Makes the directories of a store and empties `staging`. */
export async function prepareDirectories(directories: readonly string[], staging: string): Promise<void> {
  for (const directory of [...directories, staging]) await makeDirectory(directory, { mode: 0o700 })
  for (const name of await readdir(staging)) await rm(join(staging, name), { recursive: true, force: true })
}

export function digestHex(digest: Digest): string {
  return digest.slice('sha256:'.length)
}

/** The entries of a directory that are named after a digest. */
export async function digestsIn(directory: string): Promise<Digest[]> {
  return (await readdir(directory)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
}

export const InstalledRecord = z.object({
  /** The requested name; for a meta backend, the meta name. */
  name: BackendName,
  is_meta: z.boolean(),
  /** The backend that a meta backend was resolved to. */
  concrete: BackendName.nullable(),
  alias: BackendName.nullable(),
  version: z.string().max(256),
  /** Digest of the manifest, the archive or the packed directory; also the name of the tree. */
  digest: Digest,
  /** Digest of the image index, which names the same version on every platform. */
  index_digest: Digest.nullable().default(null),
  /** The last request named the manifest's digest, so the version is listed under it. */
  is_manifest_pinned: z.boolean().default(false),
  uri: z.string().max(2048),
  gallery_url: z.string().max(2048),
  installed_at: z.string().max(64),
})
export type InstalledRecord = z.infer<typeof InstalledRecord>

/** The digest under which a version is listed: the one requested last, else the index's, which is the same on every machine. */
export const listedDigest = ({ digest, index_digest: index, is_manifest_pinned: isManifestPinned }: InstalledRecord): Digest =>
  isManifestPinned ? digest : (index ?? digest)

/** Both digests name the version. */
export const matchesDigest = (record: InstalledRecord, digest: Digest): boolean =>
  record.digest === digest || record.index_digest === digest

export const Activation = z.object({ format: z.literal(1), current: InstalledRecord, previous: InstalledRecord.nullable() })
export type Activation = z.infer<typeof Activation>

/** Activating a version replaces one file by rename, so that a reader, or a start after a crash, finds the old or the new one. */
export interface Activations {
  activate(record: InstalledRecord): Promise<void>
  deactivate(name: BackendName): Promise<boolean>
  /** False when there was no previous version. */
  forgetPrevious(name: BackendName): Promise<boolean>
  get(name: BackendName): Promise<Activation | null>
  /** `isComplete` is false when a record is unreadable: then it is not known which trees it needs. */
  all(): Promise<{ readonly found: readonly Activation[]; readonly isComplete: boolean }>
  removeLeftovers(): Promise<void>
}

interface ActivationsDeps {
  readonly layout: Layout
  readonly log: Log
  readonly step: Step
}

export function createActivations({ layout, log, step }: ActivationsDeps): Activations {
  const names = async (): Promise<BackendName[]> =>
    (await readdir(layout.backends)).flatMap((name) => BackendName.safeParse(name).data ?? [])
  const get = async (name: BackendName): Promise<Activation | null> => {
    const text = await readFile(recordPath(layout, name), 'utf8').catch(ifMissing(null))
    return text === null ? null : Activation.parse(JSON.parse(text))
  }
  const write = async (activation: Activation): Promise<void> => {
    const { name } = activation.current
    await replaceFile(recordPath(layout, name), activation, () => step('W.swap.between'))
    await syncPath(layout.backend(name))
  }
  return {
    get,
    activate: async (record) => {
      await step('W.swap.before')
      const before = await get(record.name).catch(() => null)
      const previous = before === null || before.current.digest === record.digest ? (before?.previous ?? null) : before.current
      await makeDirectory(layout.backend(record.name), { mode: 0o700 })
      await write({ format: 1, current: record, previous })
      await step('W.swap.after')
    },
    forgetPrevious: async (name) => {
      const found = await get(name).catch(() => null)
      if (found === null || found.previous === null) return false
      await write({ ...found, previous: null })
      return true
    },
    deactivate: (name) => deactivate(name, { layout, step }),
    all: async () => {
      const found: Activation[] = []
      let isComplete = true
      for (const name of await names()) {
        try {
          const activation = await get(name)
          if (activation !== null) found.push(activation)
        } catch (error) {
          isComplete = false
          log.error('cannot read the record of an installed backend; garbage collection skipped', { backend: name, error })
        }
      }
      return { found, isComplete }
    },
    removeLeftovers: async () => {
      for (const name of await names()) {
        const directory = layout.backend(name)
        for (const file of (await readdir(directory)).filter(isTemporary)) await rm(join(directory, file), { force: true })
        await rmdir(directory).catch(() => {})
      }
    },
  }
}

const recordPath = (layout: Layout, name: BackendName): string => join(layout.backend(name), 'current')

async function deactivate(name: BackendName, { layout, step }: Pick<ActivationsDeps, 'layout' | 'step'>): Promise<boolean> {
  await step('W.swap.before')
  const isRemoved = await rm(recordPath(layout, name)).then(() => true, ifMissing(false))
  if (!isRemoved) return false
  await syncPath(layout.backend(name))
  await step('W.swap.between')
  // Removes it only when empty. An empty directory that stays behind is harmless.
  await rmdir(layout.backend(name)).catch(() => {})
  await syncPath(layout.backends)
  await step('W.swap.after')
  return true
}

async function replaceFile(path: string, activation: Activation, beforeRename: () => Promise<void> | void): Promise<void> {
  const temporary = temporaryName(path)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    await file.writeFile(JSON.stringify(activation))
    await file.sync()
    await beforeRename()
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

/**
 * Unfinished installs by the tree that they build. A running install holds its blobs (locks.ts); its record keeps them
 * between two tries and after the process died. Not synced: a power cut costs a download, nothing else.
 */
export interface Pulls {
  begin(tree: Digest, blobs: readonly Digest[]): Promise<void>
  end(tree: Digest): Promise<void>
  /** Makes room: the blobs of all other unfinished installs may be collected. */
  endOthers(tree: Digest): Promise<void>
  /** Also removes the records of finished and abandoned installs. */
  neededBlobs(): Promise<ReadonlySet<Digest>>
}

const BlobList = z.array(Digest)

export function createPulls({ layout, clock }: { readonly layout: Layout; readonly clock: Clock }): Pulls {
  const end = (tree: Digest): Promise<void> => rm(layout.pull(tree), { force: true })
  const read = async (tree: Digest): Promise<Digest[]> => {
    const path = layout.pull(tree)
    const found = await stat(path).catch(() => null)
    // Once the tree exists, its manifest lists its blobs.
    if (found !== null && clock.now() - found.mtimeMs < partialKeptMs && (await fileSize(layout.tree(tree))) === null) {
      const text = readFile(path, 'utf8')
      const blobs = BlobList.safeParse(await text.then(JSON.parse).catch(() => null))
      if (blobs.success) return blobs.data
    }
    await end(tree)
    return []
  }
  return {
    end,
    async endOthers(tree) {
      for (const other of await digestsIn(layout.pulls)) if (other !== tree) await end(other)
    },
    async begin(tree, blobs) {
      const temporary = join(layout.staging, newId())
      await writeFile(temporary, JSON.stringify(blobs), { mode: 0o600 })
      await rename(temporary, layout.pull(tree))
    },
    async neededBlobs() {
      return new Set((await Promise.all((await digestsIn(layout.pulls)).map(read))).flat())
    },
  }
}
