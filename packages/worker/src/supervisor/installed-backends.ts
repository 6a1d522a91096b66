// What the supervisor needs of the backends on this machine: the tree to start one from, kept while a process runs from it.
import type { BackendName, Digest } from '@muster/protocol'
import type { BackendStore } from '../storage/backend-store.ts'
import type { InstalledRecord } from '../storage/installed-record.ts'
import type { BackendDescription } from '../storage/unpack/artifact.ts'

export type Tree = Readonly<{ digest: Digest; directory: string; description: BackendDescription | null }>
export type HeldTree = Tree & Disposable

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
      const found = await digestOf(store, backend, digest)
      if (found === null) return null
      using held = new DisposableStack()
      held.use(store.hold([found]))
      const tree = await treeOf(found)
      if (tree === null) return null
      const kept = held.move()
      return { ...tree, [Symbol.dispose]: () => kept.dispose() }
    },
  }
}

/** Of the tree. What is asked for may be the digest of the index that led to it, and of a version that is not in use. */
async function digestOf(store: Store, backend: BackendName, digest: Digest | undefined): Promise<Digest | null> {
  const records = await store.list()
  const current =
    records.find(({ name }) => name === backend) ?? records.find((each) => each.concrete === backend || each.alias === backend)
  if (current === undefined) return null
  if (digest === undefined || isOf(current, digest)) return current.digest
  const previous = (await store.get(current.name))?.previous ?? null
  return previous !== null && isOf(previous, digest) ? previous.digest : digest
}

const isOf = (record: InstalledRecord, digest: Digest): boolean => record.digest === digest || record.index_digest === digest
