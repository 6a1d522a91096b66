// The backends of the cluster, as clients see them: from what nodes said; only those that never said it are asked.
import { BackendName, type BackendView, type UpgradeView } from '@muster/protocol'
import type { AvailableStore } from '../store/available.ts'
import type { DutyStore } from '../store/duties.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { isDoubtful, type InventoryAsker } from './ask.ts'
import { CheckReport, checkDuty } from './check-upgrades.ts'
import { installedOf } from './installed.ts'
import { mergeInventories } from './merge.ts'
import { upgradeOf } from './upgrades.ts'

export interface FleetBackendsDeps {
  readonly nodes: NodeStore
  readonly available: AvailableStore
  readonly duties: DutyStore
  readonly asker: InventoryAsker
}

export type UpgradesAnswer = Readonly<{
  upgrades: Record<string, UpgradeView>
  checked_at: string | null
  problems: CheckReport['problems']
}>

export type FleetBackends = ReturnType<typeof createFleetBackends>

export function createFleetBackends({ nodes, available, duties, asker }: FleetBackendsDeps) {
  /** With what each has as far as that can be known. */
  const listNodes = async (): Promise<NodeRecord[]> => {
    const known = await nodes.list()
    const doubtful = known.filter(isDoubtful)
    if (doubtful.length === 0) return known
    await asker.ask(doubtful)
    return await nodes.list()
  }
  const upgrades = async (): Promise<UpgradesAnswer> => {
    const [known, offers, duty] = await Promise.all([nodes.list(), available.list(), duties.read(checkDuty)])
    const found: Record<string, UpgradeView> = {}
    for (const [backend, [first, ...others]] of installedOf(known, offers)) {
      if (first === undefined) continue
      const { hasUpgrade, view } = upgradeOf([first, ...others])
      if (hasUpgrade || view.node_drift.length > 0) found[backend] = view
    }
    const { problems } = CheckReport.safeParse(duty.report).data ?? { problems: [] }
    return { upgrades: found, checked_at: duty.doneAt, problems }
  }
  return {
    listNodes,
    async list(): Promise<BackendView[]> {
      return mergeInventories(await listNodes(), await available.list())
    },
    /** Of these, those that are installed anywhere; nobody is asked. */
    async read(names: readonly string[]): Promise<Map<string, BackendView>> {
      const views = mergeInventories(await nodes.list(), await available.list())
      return new Map(views.filter(({ name }) => names.includes(name)).map((view) => [view.name, view]))
    },
    upgrades,
    /** Those with an upgrade or drift. */
    upgradable: async (): Promise<BackendName[]> => Object.keys((await upgrades()).upgrades).map((name) => BackendName.parse(name)),
  }
}
