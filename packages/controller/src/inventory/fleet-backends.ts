// The backends of the fleet as the API shows them, from stored inventories; only nodes without one are queried.
import { BackendName, type BackendView, type OfferedBackend, type UpgradeView } from '@muster/protocol'
import { chooseBackend, type GalleryEntry, isMeta } from '@muster/source'
import type { Offers } from '../gallery/catalogue.ts'
import type { AvailableStore, DutyStore } from '../store/galleries.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { checkDuty, CheckReport } from './check-upgrades.ts'
import { installedOf, kindOfNode, mergeInventories, upgradeOf } from './upgrades.ts'
import { isDoubtful, type NodeQueries } from './node-inventories.ts'

export interface FleetBackendsDeps {
  readonly nodes: NodeStore
  readonly available: AvailableStore
  readonly duties: DutyStore
  readonly queries: NodeQueries
}

export type UpgradesAnswer = Readonly<{
  upgrades: Record<string, UpgradeView>
  checked_at: string | null
  problems: CheckReport['problems']
}>

export type FleetBackends = ReturnType<typeof createFleetBackends>

export function createFleetBackends({ nodes, available, duties, queries }: FleetBackendsDeps) {
  /** Nodes with inventories, as far as they are known. */
  const listNodes = async (): Promise<NodeRecord[]> => {
    const known = await nodes.list()
    const doubtful = known.filter(isDoubtful)
    if (doubtful.length === 0) return known
    await queries.query(doubtful)
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
    /** Only the names that are installed somewhere; no node is queried. */
    async read(names: readonly string[]): Promise<Map<string, BackendView>> {
      const views = mergeInventories(await nodes.list(), await available.list())
      return new Map(views.filter(({ name }) => names.includes(name)).map((view) => [view.name, view]))
    },
    upgrades,
    /** Backends with an upgrade or drift. */
    upgradable: async (): Promise<BackendName[]> => Object.keys((await upgrades()).upgrades).map((name) => BackendName.parse(name)),
  }
}

/** Entries of all galleries, with the nodes that each fits. The first of several entries with one name counts. */
export function offeredBackends({ galleries }: Offers, nodes: readonly NodeRecord[]): OfferedBackend[] {
  const targets = nodes.filter((node) => node.nodeType !== 'agent' && node.approvedAt !== null)
  const installed = new Set(targets.flatMap(({ inventory }) => inventory.map(({ name }) => name)))
  const seen = new Set<BackendName>()
  return galleries.flatMap((gallery) =>
    gallery.entries.flatMap((entry) => {
      if (seen.has(entry.name)) return []
      seen.add(entry.name)
      const fits = fitsEach({ galleries, name: entry.name }, targets)
      return [{ ...shown(entry), gallery: gallery.name, installed: installed.has(entry.name), nodes: fits }]
    }),
  )
}

const shown = (entry: GalleryEntry) => ({
  name: entry.name,
  is_meta: isMeta(entry),
  version: entry.version,
  description: entry.description,
  license: entry.license,
  icon: entry.icon,
  tags: entry.tags,
  urls: entry.urls,
})

/** A fleet has few kinds of nodes. */
function fitsEach(
  { galleries, name }: { galleries: Offers['galleries']; name: BackendName },
  nodes: readonly NodeRecord[],
): OfferedBackend['nodes'] {
  const reasons = new Map<string, string | null>()
  return nodes.map((node) => {
    const kind = kindOfNode(node)
    if (!reasons.has(kind)) {
      const choice = chooseBackend(galleries, name, node)
      reasons.set(kind, choice.kind === 'found' ? null : choice.reason)
    }
    const reason = reasons.get(kind) ?? null
    return { node_id: node.id, node_name: node.name, fits: reason === null, reason }
  })
}
