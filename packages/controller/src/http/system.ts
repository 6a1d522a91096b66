// Health, version, metrics, status, statistics and the OpenAPI document.
import type { Registry } from 'prom-client'
import type { Bus } from '@muster/bus'
import { type Clock, version } from '@muster/host'
import { statsRoutes, systemRoutes as routes } from '@muster/protocol'
import { countByStatus } from '../nodes/view.ts'
import type { ControllerStore } from '../store/routes.ts'
import type { NodeStore } from '../store/nodes.ts'
import type { StatsStore } from '../store/stats.ts'
import { Answer, endpoint, type Endpoint } from './endpoint.ts'

/** A controller without a heartbeat for this long is not listed. */
const liveWithinMs = 15_000

export interface SystemDeps {
  readonly isReady: () => boolean
  readonly isDraining: () => boolean
  readonly bus: Bus
  readonly isBusOpen: boolean
  readonly nodes: NodeStore
  readonly controllers: ControllerStore
  readonly metrics: { readonly registry: Registry; readonly refresh: () => Promise<void> }
  readonly openApi: () => object
}

export function systemEndpoints(deps: SystemDeps): Endpoint[] {
  return [
    endpoint(routes.healthz, async () => ({ status: 'ok' as const })),
    endpoint(routes.readyz, async () => {
      const status = deps.isDraining() ? ('draining' as const) : deps.isReady() ? ('ok' as const) : ('unavailable' as const)
      return status === 'ok' ? { status } : new Answer(503, { status }, { 'retry-after': '1' })
    }),
    endpoint(routes.version, async () => ({ version })),
    endpoint(routes.metrics, async () => {
      await deps.metrics.refresh()
      return new Response(await deps.metrics.registry.metrics(), { headers: { 'content-type': deps.metrics.registry.contentType } })
    }),
    endpoint(routes.openapi, async () => Response.json(deps.openApi())),
    endpoint(routes.status, async () => {
      const [database, controllers, nodes] = await Promise.all([
        deps.controllers.databaseInfo(),
        deps.controllers.listLive(liveWithinMs),
        countByStatus(deps.nodes),
      ])
      return {
        version,
        controllers,
        database,
        bus: { kind: deps.bus.kind, connected: deps.bus.isConnected(), open: deps.isBusOpen },
        nodes,
      }
    }),
  ]
}

const defaultStatsMs = 3_600_000

export function statsEndpoints({ stats, clock }: { stats: StatsStore; clock: Clock }): Endpoint[] {
  return [
    endpoint(statsRoutes.stats, async ({ query }) => {
      const since = query.since ?? new Date(clock.now() - defaultStatsMs).toISOString()
      return { bucket_seconds: 10 as const, buckets: await stats.list({ since, until: null }) }
    }),
  ]
}
