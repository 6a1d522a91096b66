// What is installed and what is offered, put together: who hears it, who asks for it, and who looks for newer builds.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import type { Catalogue } from '../gallery/catalogue.ts'
import type { ResolveSource } from '../gallery/resolve-source.ts'
import type { ControllerSettings } from '../settings.ts'
import type { Store } from '../store/store.ts'
import { createInventoryAsker } from './query-nodes.ts'
import { createUpgradeChecker, type UpgradeCheckerDeps } from './check-upgrades.ts'
import { createFleetBackends } from './fleet-backends.ts'
import { createInventoryListener, type SettleByInventory } from './reports.ts'

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
  const { available, duties, nodes, pulses, inventory: inventories } = store
  const listener = createInventoryListener({ inventories, settleByInventory, clock, log })
  const asker = createInventoryAsker({ bus, inventories, pulses, settleByInventory, clock, log })
  const fleet = createFleetBackends({ nodes, available, duties, asker })
  const checker = createUpgradeChecker({
    ...{ available, duties, clock, log },
    catalogue: deps.catalogue,
    resolve: deps.resolve,
    listNodes: fleet.listNodes,
    holder: deps.holder,
    intervalMs: settings.upgradeCheckInterval,
    stopping: deps.stopping,
    submitUpgrade: settings.autoUpgrade ? deps.submitUpgrade : null,
  })
  return {
    fleet,
    checker,
    receive: listener.receive,
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await Promise.all([listener.run(signal), checker.run(signal)])
    },
  }
}
