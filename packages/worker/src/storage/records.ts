// What is known about an installed version of a backend: `backends/<name>/current`, one small file that is replaced whole.
import { open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { type Clock, errorCode, isTemporary, type Log, makeDirectory, newId, temporaryName } from '@muster/host'
import { BackendName, Digest } from '@muster/protocol'
import { fileSize } from './blobs.ts'
import { type Layout, partialKeptMs } from './layout.ts'
import { syncPath } from './unpack/sync.ts'

export const InstalledRecord = z.object({
  /** The name that was asked for: of a meta backend, the meta name. */
  name: BackendName,
  is_meta: z.boolean(),
  /** The backend that a meta backend was resolved to. */
  concrete: BackendName.nullable(),
  alias: BackendName.nullable(),
  version: z.string().max(256),
  /** Of the manifest, the archive or the packed directory; also the name of the tree. */
  digest: Digest,
  /** Of the list of manifests, one per platform, that led to it: what the same version is called on every machine. */
  index_digest: Digest.nullable().default(null),
  /** Whoever asked for it last named the manifest all the same, and finds it under that digest. */
  is_manifest_pinned: z.boolean().default(false),
  uri: z.string().max(2048),
  gallery_url: z.string().max(2048),
  installed_at: z.string().max(64),
})
export type InstalledRecord = z.infer<typeof InstalledRecord>

/** The digest under which a version is listed: the one by which it was asked for last; else that of the index, which is the same on every machine. */
export const listedDigest = ({ digest, index_digest: index, is_manifest_pinned: isManifestPinned }: InstalledRecord): Digest =>
  isManifestPinned ? digest : (index ?? digest)

/** Either of its digests names it. */
export const matchesDigest = (record: InstalledRecord, digest: Digest): boolean =>
  record.digest === digest || record.index_digest === digest

export const Activation = z.object({ format: z.literal(1), current: InstalledRecord, previous: InstalledRecord.nullable() })
export type Activation = z.infer<typeof Activation>

// Which version of each backend is the one in use. Activating replaces one file by rename: whoever looks, and whoever
// starts after a crash, finds the old version or the new one.

export interface Activations {
  activate(record: InstalledRecord): Promise<void>
  deactivate(name: BackendName): Promise<boolean>
  /** False when there was none. */
  forgetPrevious(name: BackendName): Promise<boolean>
  get(name: BackendName): Promise<Activation | null>
  /** `isComplete` is false when a file could not be read: then nobody knows what it holds on to. */
  all(): Promise<{ readonly found: readonly Activation[]; readonly isComplete: boolean }>
  removeLeftovers(): Promise<void>
}

interface ActivationsDeps {
  readonly layout: Layout
  readonly log: Log
  readonly step: (name: string) => Promise<void> | void
}

export function createActivations({ layout, log, step }: ActivationsDeps): Activations {
  const names = async (): Promise<BackendName[]> =>
    (await readdir(layout.backends)).flatMap((name) => BackendName.safeParse(name).data ?? [])
  const get = async (name: BackendName): Promise<Activation | null> => {
    const text = await readFile(recordPath(layout, name), 'utf8').catch(nullIfMissing)
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
          log.error("the record of an installed backend can't be read; it is kept, and nothing is cleaned up", { backend: name, error })
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
  const isRemoved = await rm(recordPath(layout, name)).then(() => true, nullIfMissing)
  if (isRemoved === null) return false
  await syncPath(layout.backend(name))
  await step('W.swap.between')
  // Only if it is empty; an empty one that stays means nothing.
  await rmdir(layout.backend(name)).catch(() => {})
  await syncPath(layout.backends)
  await step('W.swap.after')
  return true
}

async function replaceFile(path: string, activation: Activation, between: () => Promise<void> | void): Promise<void> {
  const temporary = temporaryName(path)
  try {
    await using file = await open(temporary, 'wx', 0o600)
    await file.writeFile(JSON.stringify(activation))
    await file.sync()
    await between()
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}

function nullIfMissing(error: unknown): null {
  if (errorCode(error) === 'ENOENT') return null
  throw error
}

// Which blobs the installs want that have begun and are not at their end. While one runs, it holds them (holds.ts); this
// is for the time when its process is gone, or when it waits for another try. Each is one small file named after the tree
// that it is going to be. Not synced: what a power cut takes of it costs bytes, and nothing else.

export interface Pulls {
  begin(tree: Digest, blobs: readonly Digest[]): Promise<void>
  /** At its end, or given up. */
  end(tree: Digest): Promise<void>
  /** There is too little room for this one and for what others fetched, who may come back or not. */
  endOthers(tree: Digest): Promise<void>
  /** Also drops what is done, and what nobody came back to. */
  neededBlobs(): Promise<ReadonlySet<Digest>>
}

const BlobList = z.array(Digest)

export function createPulls({ layout, clock }: { readonly layout: Layout; readonly clock: Clock }): Pulls {
  const end = (tree: Digest): Promise<void> => rm(layout.pull(tree), { force: true })
  const read = async (tree: Digest): Promise<Digest[]> => {
    const path = layout.pull(tree)
    const found = await stat(path).catch(() => null)
    // A tree says itself what it was made of.
    if (found !== null && clock.now() - found.mtimeMs < partialKeptMs && (await fileSize(layout.tree(tree))) === null) {
      const text = readFile(path, 'utf8')
      const blobs = BlobList.safeParse(await text.then(JSON.parse).catch(() => null))
      if (blobs.success) return blobs.data
    }
    await end(tree)
    return []
  }
  const begun = async (): Promise<Digest[]> =>
    (await readdir(layout.pulls)).flatMap((name) => Digest.safeParse(`sha256:${name}`).data ?? [])
  return {
    end,
    async endOthers(tree) {
      for (const other of await begun()) if (other !== tree) await end(other)
    },
    async begin(tree, blobs) {
      const temporary = join(layout.staging, newId())
      await writeFile(temporary, JSON.stringify(blobs), { mode: 0o600 })
      await rename(temporary, layout.pull(tree))
    },
    async neededBlobs() {
      return new Set((await Promise.all((await begun()).map(read))).flat())
    },
  }
}
