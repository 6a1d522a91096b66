// Room on the disk for another version. What nobody needs goes after every install; where that is too little, the version
// before the one in use goes, and where the old one may go first (`recreate`), that too.
import type { Log } from '@muster/host'
import { failureOf, FleetError, type BackendName, type Digest, type Failure } from '@muster/protocol'
import type { InstallContext, InstallRequest } from '../operations/installer.ts'
import type { BackendStore } from '../storage/backend-store.ts'
import { withSigns } from '../storage/signs.ts'

/** Unless forced, what they are doing may come to its end. `outdated`: what runs from another version than the one in use. */
export type StopProcesses = (backend: BackendName, how: { force: boolean; only?: 'outdated' }) => Promise<void>

export type RoomDeps = Readonly<{
  store: BackendStore
  /** Ends whatever runs from a backend; resolves when it is gone. */
  stopProcesses?: StopProcesses
  /** Tells what runs from a version by which of its digests that is listed. */
  relistProcesses?: (version: Readonly<{ names: readonly Digest[]; listed: Digest }>) => Promise<void>
  log: Log
}>

export type RoomRequest<T> = Readonly<{ request: InstallRequest; fetch: () => Promise<T> }>

/** Fetches, and again each time that something could be given up for it. */
export async function fetchWithRoom<T>(deps: RoomDeps, { request, fetch }: RoomRequest<T>, context: InstallContext): Promise<T> {
  let gaveUp: Concession = 'nothing'
  let freeBefore = await deps.store.freeBytes()
  for (;;) {
    try {
      return await fetch()
    } catch (error) {
      const failure = failureOf(error)
      const isOver = context.signal.aborted
      const isFull = failure.code === 'disk_full'
      // What can't be used takes no space, nor does what has too little; what is tried again continues with what is there.
      if ((failure.retry === 'never' || isFull) && !isOver) await collectGarbage(deps, context)
      const free = await deps.store.freeBytes()
      // Some of what nobody needs was of others.
      const isMore = isFull && free > freeBefore + mebibyte
      freeBefore = free
      if (isMore && !isOver) continue
      const next = isFull && !isOver ? await concedeMore(deps, request, context) : 'nothing'
      if (next === 'nothing') throw gaveUp === 'all' ? notInstalledNow(failure, { request, error }) : error
      gaveUp = next
      freeBefore = await deps.store.freeBytes()
    }
  }
}

/** Less is what others write meanwhile. */
const mebibyte = 1024 ** 2

type Concession = 'nothing' | 'previous' | 'all'

async function concedeMore(deps: RoomDeps, { backend, strategy }: InstallRequest, context: InstallContext): Promise<Concession> {
  const { store, log } = deps
  // Whoever wants yet another version does not go back by two; what still runs from it holds it.
  if (await store.forgetPrevious(backend)) {
    log.warn('the disk is short: the version before the one in use is given up', { backend })
    await collectGarbage(deps, context)
    return 'previous'
  }
  if (strategy !== 'recreate' || (await store.get(backend)) === null) return 'nothing'
  log.warn('the disk is short for two versions: the old one is stopped and removed before the new one is fetched', { backend })
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

/** What was done is done, also when something that nobody needs stays a little longer. */
export async function collectGarbage({ store, log }: RoomDeps, { signal, onSign }: CollectContext): Promise<void> {
  await withSigns(onSign, () => store.collect(signal)).catch((error: unknown) =>
    log.warn('not everything that nobody needs was removed', { error }),
  )
}

function notInstalledNow(failure: Failure, { request, error }: { request: InstallRequest; error: unknown }): FleetError {
  const message = `${failure.message}; the old version was removed to make room, so ${request.backend} is not installed on this node now`
  return new FleetError({ ...failure, message }, { cause: error })
}
