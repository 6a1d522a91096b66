// The settings that workers follow, as their sessions tell them.
import type { Clock } from '@muster/host'
import type { GalleryAddress, WorkerSettings } from '@muster/protocol'
import type { BuiltinBlobs } from './builtin/builtin-blobs.ts'
import type { ControllerSettings } from './settings.ts'
import type { Store } from './store/store.ts'

/** Workers are told of controllers that reported this recently. */
const liveWithinMs = 60_000
/** However many workers ask, the database is read once in this time. */
const keptForMs = 1_000

export interface WorkerSettingsDeps {
  readonly settings: ControllerSettings
  readonly store: Pick<Store, 'controllers' | 'galleries'>
  readonly builtin: Promise<BuiltinBlobs>
  readonly clock: Clock
}

export function createWorkerSettings({ settings, store, builtin, clock }: WorkerSettingsDeps): () => Promise<WorkerSettings> {
  let kept: { at: number; read: Promise<Pick<WorkerSettings, 'controllers' | 'galleries'>> } | null = null

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
