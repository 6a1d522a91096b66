// /api/settings: the settings of this controller, and those that administrators change for all controllers at run time.
import { systemRoutes as routes } from '@muster/protocol'
import { principalName } from '../auth/principal.ts'
import type { RuntimeSettings } from '../runtime-settings.ts'
import type { RuntimeSettingStore } from '../store/runtime-settings.ts'
import { endpoint, type Endpoint } from './endpoint.ts'
import { HttpError } from './http-error.ts'

export interface SettingEndpointDeps {
  readonly runtime: Pick<RuntimeSettings, 'decide' | 'explain' | 'pinned' | 'set'>
  readonly store: RuntimeSettingStore
  /** The URL of this controller. */
  readonly controller: string
}

const refusals = {
  unknown: [400, 'invalid'],
  invalid: [400, 'invalid'],
  fixed: [409, 'setting_is_fixed'],
  pinned: [409, 'setting_is_pinned'],
} as const

export function settingEndpoints({ runtime, store, controller }: SettingEndpointDeps): Endpoint[] {
  // This controller may not have reported its own pins yet.
  const own = Object.entries(runtime.pinned).map(([flag, from]) => ({ flag, from, controller }))
  const list = async () => ({ controller, settings: runtime.explain([...own, ...(await store.pins())]) })
  return [
    endpoint(routes.settings, list),
    endpoint(routes.changeSettings, async ({ body, principal }) => {
      const requests = Object.entries(body).map(([flag, value]) => ({ flag, value: value === null ? null : String(value) }))
      const decision = await store.change(principalName(principal), ({ texts, pins }) =>
        runtime.decide(requests, { texts, pins: [...own, ...pins] }),
      )
      if (decision.outcome !== 'ok') {
        const [status, code] = refusals[decision.outcome]
        throw new HttpError(status, code, decision.message, decision.outcome === 'unknown' ? { details: { param: decision.flag } } : {})
      }
      // The answer shows the new values; other controllers read them after the change.
      runtime.set(await store.read())
      return await list()
    }),
    endpoint(routes.settingChanges, async ({ query }) => ({
      changes: (await store.changes(query.limit)).map(({ flag, changedBy, ...change }) => ({
        ...change,
        setting: flag,
        changed_by: changedBy,
      })),
    })),
  ]
}
