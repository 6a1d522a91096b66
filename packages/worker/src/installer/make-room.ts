// Makes room on the disk for another version:
//   1. collect garbage
//   2. drop the previous version
//   3. with the strategy `recreate`, stop and remove the active version before the new one is fetched
import type { Log } from '@muster/host'
import { failureOf, FleetError, type BackendName, type Digest, type Failure } from '@muster/protocol'
import type { InstallContext, InstallRequest } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import { withSigns } from '../storage/signs.ts'

/** Unless forced, processes may finish their requests. `outdated` stops only processes of versions other than the active one. */
export type StopProcesses = (backend: BackendName, how: { force: boolean; only?: 'outdated' }) => Promise<void>

export type RoomDeps = Readonly<{
  store: BackendStore
  /** Stops the processes of a backend; resolves when they have exited. */
  stopProcesses?: StopProcesses
  /** Reports to running processes of a version the digest under which it is listed. */
  relistProcesses?: (version: Readonly<{ names: readonly Digest[]; listed: Digest }>) => Promise<void>
  log: Log
}>

export type RoomRequest<T> = Readonly<{ request: InstallRequest; fetch: () => Promise<T> }>

/** Fetches, and again after each step that made room. */
export async function fetchWithRoom<T>(deps: RoomDeps, { request, fetch }: RoomRequest<T>, context: InstallContext): Promise<T> {
  let removed: RemovedVersions = 'nothing'
  let freeBefore = await deps.store.freeBytes()
  for (;;) {
    try {
      return await fetch()
    } catch (error) {
      const failure = failureOf(error)
      const isCancelled = context.signal.aborted
      const isFull = failure.code === 'disk_full'
      // A refused version, or one that does not fit, must not take space; other failures keep their downloads for the next try.
      if ((failure.retry === 'never' || isFull) && !isCancelled) await collectGarbage(deps, context)
      const free = await deps.store.freeBytes()
      // The collection made room: try again.
      const isMore = isFull && free > freeBefore + mebibyte
      freeBefore = free
      if (isMore && !isCancelled) continue
      const next = isFull && !isCancelled ? await removeVersions(deps, request, context) : 'nothing'
      if (next === 'nothing') throw removed === 'all' ? notInstalledAnymore(failure, { request, error }) : error
      removed = next
      freeBefore = await deps.store.freeBytes()
    }
  }
}

/** Smaller changes come from other programs. */
const mebibyte = 1024 ** 2

type RemovedVersions = 'nothing' | 'previous' | 'all'

async function removeVersions(deps: RoomDeps, { backend, strategy }: InstallRequest, context: InstallContext): Promise<RemovedVersions> {
  const { store, log } = deps
  // The upgrade makes the active version the previous one. Processes still running from the old previous one hold it.
  if (await store.forgetPrevious(backend)) {
    log.warn('previous version removed: too little disk space', { backend })
    await collectGarbage(deps, context)
    return 'previous'
  }
  if (strategy !== 'recreate' || (await store.get(backend)) === null) return 'nothing'
  log.warn('active version removed before the upgrade: too little disk space for two', { backend })
  await stopAll(deps, { backend, force: false }, context)
  await store.deactivate(backend)
  await collectGarbage(deps, context)
  return 'all'
}

type StopRequest = Readonly<{ backend: BackendName; force: boolean; only?: 'outdated' }>

export async function stopAll({ stopProcesses }: RoomDeps, { backend, ...how }: StopRequest, { onSign }: InstallContext): Promise<void> {
  await withSigns(onSign, async () => stopProcesses?.(backend, how))
}

type CollectContext = Pick<InstallContext, 'signal'> & Partial<Pick<InstallContext, 'onSign'>>

/** A failed collection does not fail the install. */
export async function collectGarbage({ store, log }: RoomDeps, { signal, onSign }: CollectContext): Promise<void> {
  await withSigns(onSign, () => store.collect(signal)).catch((error: unknown) =>
    log.warn('cannot collect garbage of the backend store', { error }),
  )
}

function notInstalledAnymore(failure: Failure, { request, error }: { request: InstallRequest; error: unknown }): FleetError {
  const message = `${failure.message}; the old version was removed to make room, so ${request.backend} is not installed on this node now`
  return new FleetError({ ...failure, message }, { cause: error })
}
