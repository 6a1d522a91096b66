// Ends the processes of a backend, by whichever of its names they were loaded.
import type { BackendName, Digest, ReplicaId } from '@muster/protocol'
import { unloadReplica } from './end-replica.ts'
import { isGone, type Replica, type ReplicaDeps } from './replica.ts'

type Having = Readonly<{ replicas: ReadonlyMap<ReplicaId, Replica>; deps: ReplicaDeps }>

/** `backend`: null means all. `only`: those that run from another version than the one in use. */
export type Stopping = Readonly<{ backend: BackendName | null; force: boolean; only?: 'outdated' }>

/** Resolves when they are gone. */
export async function stopBackend({ replicas, deps }: Having, { backend, force, only }: Stopping): Promise<void> {
  const inUse = backend === null ? null : await treeInUse(backend, deps)
  const isOfIt = async ({ record: { order, digest } }: Replica): Promise<boolean> => {
    if (backend === null || order.backend === backend) return true
    return inUse !== null && (digest === inUse || (await treeInUse(order.backend, deps)) === inUse)
  }
  const meant: Replica[] = []
  for (const each of [...replicas.values()].filter((replica) => !isGone(replica))) {
    const isCurrent = inUse !== null && each.record.digest === inUse
    if (!(only === 'outdated' && isCurrent) && (await isOfIt(each))) meant.push(each)
  }
  const what = backend === null ? 'every backend' : `the backend ${backend}`
  const because = { code: 'cancelled', retry: 'never', message: `the processes of ${what} were stopped` } as const
  await Promise.all(meant.map((each) => unloadReplica(each, { force, because }, deps)))
}

async function treeInUse(backend: BackendName, { backends }: ReplicaDeps): Promise<Digest | null> {
  using tree = await backends.take(backend, undefined)
  return tree?.digest ?? null
}
