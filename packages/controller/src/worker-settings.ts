// The settings that worker sessions deliver.
import type { Clock } from '@muster/host'
import type { GalleryAddress, WorkerSettings } from '@muster/protocol'
import type { BuiltinBlobs } from './builtin/builtin-blobs.ts'
import type { ChangeFeed } from './events/feed.ts'
import type { ControllerSettings } from './settings.ts'
import type { Store } from './store/store.ts'

/** Workers receive the URLs of controllers with a heartbeat within this time. */
const liveWithinMs = 60_000
/** The database is read at most once in this time, for all workers. */
const cacheMs = 1_000

/** The change key of the list of galleries (migration 0005). */
export const galleriesKey = { kind: 'settings', id: 'galleries' } as const

export interface WorkerSettingsDeps {
  readonly settings: ControllerSettings
  readonly store: Pick<Store, 'controllers' | 'galleries'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly feed: Pick<ChangeFeed, 'listen'>
  readonly clock: Clock
}

export function createWorkerSettings({ settings, store, builtin, feed, clock }: WorkerSettingsDeps): () => Promise<WorkerSettings> {
  let cached: { at: number; read: Promise<Pick<WorkerSettings, 'controllers' | 'galleries'>> } | null = null

  // Listeners are notified before watches, so a woken session reads the new list.
  feed.listen(({ changes }) => {
    if (changes.some(({ kind }) => kind === galleriesKey.kind)) cached = null
  })
  const readUrls = async (): Promise<string[]> => {
    const live = await store.controllers.listLive(liveWithinMs)
    return [...new Set(live.map((controller) => controller.url))].toSorted()
  }
  const readGalleries = async (): Promise<GalleryAddress[]> => {
    const configured = await store.galleries.list()
    return [(await builtin).gallery, ...configured.map(({ name, url, kind }) => ({ name, url, kind }))]
  }
  const read = async () => {
    const [controllers, galleries] = await Promise.all([readUrls(), readGalleries()])
    return { controllers, galleries }
  }
  return async () => {
    if (cached === null || clock.monotonic() - cached.at > cacheMs) cached = { at: clock.monotonic(), read: read() }
    const { heartbeatInterval, allowSource, diskCheck } = settings
    const known = { heartbeat_interval_ms: heartbeatInterval, ...(await cached.read), allow_source: [...allowSource] }
    return diskCheck === 'refuse' ? known : { ...known, disk_check: diskCheck }
  }
}
