// The settings that workers follow, as their sessions tell them.
import type { Clock } from '@muster/host'
import type { GalleryAddress, WorkerSettings } from '@muster/protocol'
import type { BuiltinBlobs } from './builtin/builtin-blobs.ts'
import type { ChangeFeed } from './events/feed.ts'
import type { ControllerSettings } from './settings.ts'
import type { Store } from './store/store.ts'

/** Workers are told of controllers that reported this recently. */
const liveWithinMs = 60_000
/** However many workers ask, the database is read once in this time. */
const keptForMs = 1_000

/** How changes name what galleries there are, all of them at once (migration 0005). */
export const galleriesKey = { kind: 'settings', id: 'galleries' } as const

export interface WorkerSettingsDeps {
  readonly settings: ControllerSettings
  readonly store: Pick<Store, 'controllers' | 'galleries'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly feed: Pick<ChangeFeed, 'listen'>
  readonly clock: Clock
}

export function createWorkerSettings({ settings, store, builtin, feed, clock }: WorkerSettingsDeps): () => Promise<WorkerSettings> {
  let kept: { at: number; read: Promise<Pick<WorkerSettings, 'controllers' | 'galleries'>> } | null = null

  // Listeners are told before those who wait for it are woken, so these read it anew.
  feed.listen(({ changes }) => {
    if (changes.some(({ kind }) => kind === galleriesKey.kind)) kept = null
  })
  const readUrls = async (): Promise<string[]> => {
    const live = await store.controllers.listLive(liveWithinMs)
    return [...new Set(live.map((controller) => controller.url))].toSorted()
  }
  const readGalleries = async (): Promise<GalleryAddress[]> => {
    const added = await store.galleries.list()
    return [(await builtin).gallery, ...added.map(({ name, url, kind }) => ({ name, url, kind }))]
  }
  const read = async () => {
    const [controllers, galleries] = await Promise.all([readUrls(), readGalleries()])
    return { controllers, galleries }
  }
  return async () => {
    if (kept === null || clock.monotonic() - kept.at > keptForMs) kept = { at: clock.monotonic(), read: read() }
    return { heartbeat_interval_ms: settings.heartbeatInterval, ...(await kept.read), allow_source: [...settings.allowSource] }
  }
}
