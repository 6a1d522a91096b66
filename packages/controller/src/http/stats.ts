// GET /api/stats: what went through all controllers.
import type { Clock } from '@muster/host'
import { statsRoutes as routes } from '@muster/protocol'
import type { StatsStore } from '../store/stats.ts'
import { endpoint, type Endpoint } from './endpoint.ts'

const defaultMs = 3_600_000

export function statsEndpoints({ stats, clock }: { stats: StatsStore; clock: Clock }): Endpoint[] {
  return [
    endpoint(routes.stats, async ({ query }) => {
      const since = query.since ?? new Date(clock.now() - defaultMs).toISOString()
      return { bucket_seconds: 10 as const, buckets: await stats.list({ since, until: null }) }
    }),
  ]
}
