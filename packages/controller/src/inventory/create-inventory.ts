// Composes the inventory: reports and queries of nodes, the backends of the fleet, and the check for newer builds.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { ResolveSource } from '../gallery/resolve-source.ts'
import type { ControllerSettings } from '../settings.ts'
import type { Store } from '../store/store.ts'
import { createInventoryReports, createNodeQueries, type SettleByInventory } from './node-inventories.ts'
import { createUpgradeChecker, type UpgradeCheckerDeps } from './check-upgrades.ts'
import { createFleetBackends } from './fleet-backends.ts'
import { withLive } from '../with-live.ts'

export interface InventoryDeps {
  readonly bus: Bus
  readonly store: Store
  readonly settings: Pick<ControllerSettings, 'upgradeCheckInterval' | 'autoUpgrade'>
  readonly catalogue: Catalogue
  readonly resolve: ResolveSource
  readonly settleByInventory: SettleByInventory
  readonly submitUpgrade: NonNullable<UpgradeCheckerDeps['submitUpgrade']>
  /** This process. */
  readonly holder: string
  readonly stopping: AbortSignal
  readonly clock: Clock
  readonly log: Log
}

export function createInventory(deps: InventoryDeps) {
  const { bus, store, settings, settleByInventory, clock, log } = deps
  const { available, duties, intents, nodes, pulses, inventory: inventories } = store
  const reports = createInventoryReports({ inventories, settleByInventory, clock, log })
  const queries = createNodeQueries({ bus, inventories, pulses, settleByInventory, clock, log })
  const fleet = createFleetBackends({ nodes, available, duties, intents, queries })
  const checking = {
    ...{ available, duties, clock, log },
    catalogue: deps.catalogue,
    resolve: deps.resolve,
    listNodes: fleet.listNodes,
    holder: deps.holder,
    stopping: deps.stopping,
    get submitUpgrade() {
      return settings.autoUpgrade ? deps.submitUpgrade : null
    },
  }
  const live = { intervalMs: () => settings.upgradeCheckInterval, submitUpgrade: () => (settings.autoUpgrade ? deps.submitUpgrade : null) }
  const checker = createUpgradeChecker(withLive(checking, live))
  return {
    fleet,
    queries,
    checker,
    receive: reports.receive,
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([reports.run(signal), checker.run(signal)])
    },
  }
}
