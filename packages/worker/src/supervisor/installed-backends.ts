// What the supervisor needs of the backends on this machine: the tree to start one from, kept while a process runs from it.
import type { BackendName, Digest } from '@muster/protocol'
import type { BackendStore } from '../storage/backend-store.ts'
import { matchesDigest, listedDigest } from '../storage/records.ts'
import type { BackendDescription } from '../storage/unpack/artifact.ts'

export type Tree = Readonly<{ digest: Digest; directory: string; description: BackendDescription | null }>
/** `listed`: the digest under which that version is in the inventory, which is not the tree's where an index led to it. */
export type HeldTree = Tree & Disposable & Readonly<{ listed: Digest }>

export interface InstalledBackends {
  /** The version in use, or the one that is asked for if it is here. It stays until it is disposed of. Null: not here. */
  take(backend: BackendName, digest: Digest | undefined): Promise<HeldTree | null>
  /** For a process that was found again: it stays, whether or not it is still installed. */
  hold(digest: Digest): Disposable
  /** Null: not here. */
  treeOf(digest: Digest): Promise<Tree | null>
}

/** Of a worker that keeps none. */
export const noBackends: InstalledBackends = {
  take: async () => null,
  hold: () => ({ [Symbol.dispose]: () => undefined }),
  treeOf: async () => null,
}

type Store = Pick<BackendStore, 'hold' | 'get' | 'list' | 'summary' | 'treePath'>

export function createInstalledBackends(store: Store): InstalledBackends {
  const treeOf = async (digest: Digest): Promise<Tree | null> => {
    const summary = await store.summary(digest)
    return summary === null ? null : { digest, directory: store.treePath(digest), description: summary.backend }
  }
  return {
    treeOf,
    hold: (digest) => store.hold([digest]),
    async take(backend, digest) {
      const found = await versionOf(store, backend, digest)
      if (found === null) return null
      using held = new DisposableStack()
      held.use(store.hold([found.tree]))
      const tree = await treeOf(found.tree)
      if (tree === null) return null
      const kept = held.move()
      return { ...tree, listed: found.listed, [Symbol.dispose]: () => kept.dispose() }
    },
  }
}

type Version = Readonly<{ tree: Digest; listed: Digest }>

/** What is asked for may be the digest of the index that led to a tree, and of a version that is not in use. */
async function versionOf(store: Store, backend: BackendName, digest: Digest | undefined): Promise<Version | null> {
  const records = await store.list()
  const current =
    records.find(({ name }) => name === backend) ?? records.find((each) => each.concrete === backend || each.alias === backend)
  if (current === undefined) return null
  if (digest === undefined || matchesDigest(current, digest)) return { tree: current.digest, listed: listedDigest(current) }
  const previous = (await store.get(current.name))?.previous ?? null
  const isPrevious = previous !== null && matchesDigest(previous, digest)
  return isPrevious ? { tree: previous.digest, listed: listedDigest(previous) } : { tree: digest, listed: digest }
}
