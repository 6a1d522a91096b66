// The installed backends, for the supervisor: the tree to start a process from, held while a process runs from it.
import type { BackendName, Digest } from '@muster/protocol'
import type { BackendStore } from '../storage/backend-store.ts'
import { matchesDigest, listedDigest } from '../storage/records.ts'
import type { BackendDescription } from '../storage/unpack/tree-manifest.ts'

export type Tree = Readonly<{ digest: Digest; directory: string; description: BackendDescription | null }>
/** `listed`: the digest of that version in the inventory; it differs from the tree's digest where an index led to the tree. */
export type HeldTree = Tree & Disposable & Readonly<{ listed: Digest }>

export interface InstalledBackends {
  /** The version in use, or the requested one. Its tree stays until it is disposed of. Null: not installed. */
  take(backend: BackendName, digest: Digest | undefined): Promise<HeldTree | null>
  /** For an adopted process: the tree stays, also if it is not installed any more. */
  hold(digest: Digest): Disposable
  /** Null: not on this machine. */
  treeOf(digest: Digest): Promise<Tree | null>
}

/** For a worker without backends. */
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

/** The requested digest may be that of an index, and of a version that is not in use. */
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
