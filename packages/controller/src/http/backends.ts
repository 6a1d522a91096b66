// /api/backends: what is installed and what is offered. Wishes to change it: backend-wishes.ts.
import { backendRoutes as routes } from '@muster/protocol'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { UpgradeChecker } from '../inventory/check-upgrades.ts'
import { type FleetBackends, offeredBackends } from '../inventory/fleet-backends.ts'
import type { NodeStore } from '../store/nodes.ts'
import { endpoint, type Endpoint } from './endpoint.ts'

export interface BackendReadDeps {
  readonly fleet: FleetBackends
  readonly catalogue: Catalogue
  readonly checker: UpgradeChecker
  readonly nodes: NodeStore
}

/** Whoever looks around does not make the controller read all galleries again with each look. */
const galleriesMaxAgeMs = 5_000

export function backendReadEndpoints({ fleet, catalogue, checker, nodes }: BackendReadDeps): Endpoint[] {
  return [
    endpoint(routes.list, async () => ({ backends: await fleet.list() })),
    endpoint(routes.gallery, async () => {
      const [offered, known] = await Promise.all([catalogue({ maxAgeMs: galleriesMaxAgeMs }), nodes.list()])
      const problems = offered.problems.map(({ gallery, failure }) => ({ gallery, message: failure.message }))
      return { backends: offeredBackends(offered, known), problems }
    }),
    endpoint(routes.upgrades, () => fleet.upgrades()),
    endpoint(routes.check, async () => {
      await checker.checkNow()
      return await fleet.upgrades()
    }),
  ]
}
