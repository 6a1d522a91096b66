// The settings that workers follow, as their sessions tell them.
import type { Clock } from '@muster/host'
import type { WorkerSettings } from '@muster/protocol'
import type { ControllerSettings } from './settings.ts'
import type { ControllerStore } from './store/controllers.ts'

/** Workers are told of controllers that reported this recently. */
const liveWithinMs = 60_000
/** However many workers ask, the list is read once in this time. */
const keptForMs = 1_000

export function createWorkerSettings(deps: {
  settings: ControllerSettings
  controllers: ControllerStore
  clock: Clock
}): () => Promise<WorkerSettings> {
  const { settings, controllers, clock } = deps
  let kept: { at: number; urls: Promise<string[]> } | null = null

  const readUrls = async (): Promise<string[]> => {
    const live = await controllers.listLive(liveWithinMs)
    return [...new Set(live.map((controller) => controller.url))].toSorted()
  }
  return async () => {
    if (kept === null || clock.monotonic() - kept.at > keptForMs) kept = { at: clock.monotonic(), urls: readUrls() }
    return { heartbeat_interval_ms: settings.heartbeatInterval, controllers: await kept.urls, allow_source: [...settings.allowSource] }
  }
}
