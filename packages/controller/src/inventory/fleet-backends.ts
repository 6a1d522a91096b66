// The backends of the fleet as the API shows them, from stored inventories; only nodes without a current one are queried. A view
// names the nodes that have a backend, a newer build that is offered, and nodes of one kind that differ (drift).
import { BackendName, type BackendView, type InstalledBackend, type OfferedBackend, type UpgradeView } from '@muster/protocol'
import { channelOf, formatPlatform, type GalleryEntry, isMeta, platformOf } from '@muster/source'
import { z } from 'zod'
import { findOffer, type Offers } from '../gallery/catalogue.ts'
import { statusOf } from '../nodes/view.ts'
import type { AvailableBackend, AvailableStore, DutyStore } from '../store/galleries.ts'
import type { IntentStore } from '../store/intents.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import { isDoubtful, type NodeQueries } from './node-inventories.ts'

export interface FleetBackendsDeps {
  readonly nodes: NodeStore
  readonly available: AvailableStore
  readonly duties: DutyStore
  readonly intents: Pick<IntentStore, 'unlistedNodes'>
  readonly queries: NodeQueries
}

export const checkDuty = 'upgrade-check'

/** Report of the last check, as stored. */
export const CheckReport = z.object({
  problems: z.array(z.object({ backend: z.string().nullable(), message: z.string() })).default([]),
  /** Backend → node → digest of the last automatic upgrade: a failed one is not repeated. */
  tried: z.record(z.string(), z.record(z.string(), z.string())).default({}),
})
export type CheckReport = z.infer<typeof CheckReport>

export type UpgradesAnswer = Readonly<{
  upgrades: Record<string, UpgradeView>
  checked_at: string | null
  problems: CheckReport['problems']
}>

export type FleetBackends = ReturnType<typeof createFleetBackends>

export function createFleetBackends({ nodes, available, duties, intents, queries }: FleetBackendsDeps) {
  /** Nodes with inventories, as far as they are known: an operation that has succeeded is listed. */
  const listNodes = async (): Promise<NodeRecord[]> => {
    const [known, unlisted] = await Promise.all([nodes.list(), intents.unlistedNodes()])
    const doubtful = known.filter((node) => isDoubtful(node) || unlisted.has(node.id))
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
export function offeredBackends(offers: Offers, nodes: readonly NodeRecord[]): OfferedBackend[] {
  const targets = nodes.filter((node) => node.nodeType !== 'agent' && node.approvedAt !== null)
  const installed = new Set(targets.flatMap(({ inventory }) => inventory.map(({ name }) => name)))
  const seen = new Set<BackendName>()
  return offers.galleries.flatMap((gallery) =>
    gallery.entries.flatMap((entry) => {
      if (seen.has(entry.name)) return []
      seen.add(entry.name)
      const fits = fitsEach({ offers, name: entry.name }, targets)
      return [{ ...shown(entry), gallery: gallery.name, installed: installed.has(entry.name), nodes: fits }]
    }),
  )
}

const shown = (entry: GalleryEntry) => ({
  name: entry.name,
  is_meta: isMeta(entry),
  channel: channelOf(entry),
  version: entry.version,
  description: entry.description,
  license: entry.license,
  icon: entry.icon,
  tags: entry.tags,
  urls: entry.urls,
})

/** A fleet has few kinds of nodes. */
function fitsEach({ offers, name }: { offers: Offers; name: BackendName }, nodes: readonly NodeRecord[]): OfferedBackend['nodes'] {
  const reasons = new Map<string, string | null>()
  return nodes.map((node) => {
    const kind = kindOfNode(node)
    if (!reasons.has(kind)) {
      const offer = findOffer(offers, { backend: name, gallery: null, digest: null, version: null }, node)
      reasons.set(kind, offer.kind === 'source' ? null : offer.reason)
    }
    const reason = reasons.get(kind) ?? null
    return { node_id: node.id, node_name: node.name, fits: reason === null, reason }
  })
}

// Installed backends of all nodes, compared with the offered builds.

type InstalledEntry = Readonly<{
  node: NodeRecord
  entry: InstalledBackend
  offer: AvailableBackend | null
  /** Nodes that should have the same build: same machine, same backend behind the name. */
  group: string
}>

/** Machine and capability: they decide which build fits. */
export const kindOfNode = ({ os, arch, capability }: NodeRecord): string => `${machineOf({ os, arch })} ${capability}`
const machineOf = ({ os, arch }: Pick<NodeRecord, 'os' | 'arch'>): string => formatPlatform(platformOf({ platform: os, arch }))

const byName = (a: NodeRecord, b: NodeRecord): number => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1)

/** By backend, the nodes sorted by name. Absent nodes count with their last inventory. */
export function installedOf(nodes: readonly NodeRecord[], available: readonly AvailableBackend[]): Map<BackendName, InstalledEntry[]> {
  const offers = Map.groupBy(available, ({ backend, platform }) => JSON.stringify([backend, platform]))
  const found = new Map<BackendName, InstalledEntry[]>()
  for (const node of nodes.filter(hasBackends).toSorted(byName)) {
    const kind = kindOfNode(node)
    const seen = new Set<string>()
    for (const entry of node.inventory) {
      if (seen.has(entry.name)) continue
      seen.add(entry.name)
      const offer = offerFor(entry, offers.get(JSON.stringify([entry.name, kind])) ?? [])
      const group = `${machineOf(node)} ${groupOf(entry, { offer, node })}`
      const holders = found.get(entry.name) ?? []
      found.set(entry.name, holders)
      holders.push({ node, entry, offer, group })
    }
  }
  return found
}

const hasBackends = (node: NodeRecord): boolean => node.nodeType !== 'agent' && node.approvedAt !== null

/** A backend that is in no gallery is listed under its recorded URI. */
const offerFor = (entry: InstalledBackend, offers: readonly AvailableBackend[]): AvailableBackend | null =>
  offers.find(({ concrete }) => concrete === entry.uri) ?? offers.find(({ concrete }) => isName(concrete)) ?? null

const isName = (concrete: string): boolean => BackendName.safeParse(concrete).success

function groupOf(entry: InstalledBackend, { offer, node }: { offer: AvailableBackend | null; node: NodeRecord }): string {
  if (offer !== null && isName(offer.concrete)) return offer.concrete
  return entry.is_meta ? node.capability : ''
}

type BackendUpgrade = Readonly<{ hasUpgrade: boolean; view: UpgradeView }>

type Build = Pick<InstalledBackend, 'digest' | 'version'>

/** By digest when both have one, else by version; a build without either counts as the same. */
function isSameBuild(a: Build, b: Build): boolean {
  if (a.digest !== '' && b.digest !== '') return a.digest === b.digest
  return a.version === '' || b.version === '' || a.version === b.version
}

export const isUpgradable = ({ entry, offer }: Pick<InstalledEntry, 'entry' | 'offer'>): boolean =>
  offer !== null && !isSameBuild(entry, offer)

/** `installed`: the nodes of one backend, sorted by name. */
export function upgradeOf(installed: readonly [InstalledEntry, ...InstalledEntry[]]): BackendUpgrade {
  const drift = [...Map.groupBy(installed, ({ group }) => group).values()].flatMap(driftIn)
  const upgradable = installed.filter(isUpgradable)
  // The build of a node that differs is named as drift; the installed build is that of the others, if there are any.
  const usual = (among: readonly InstalledEntry[]): InstalledEntry | undefined => among.find((each) => !drift.includes(each)) ?? among[0]
  const { entry, offer } = usual(upgradable) ?? usual(installed) ?? installed[0]
  return {
    hasUpgrade: upgradable.length > 0,
    view: {
      installed_version: entry.version,
      available_version: offer?.version ?? '',
      installed_digest: entry.digest,
      available_digest: offer?.digest ?? '',
      node_drift: installed.filter((each) => drift.includes(each)).map(shownBuild),
    },
  }
}

const shownBuild = ({ node, entry }: InstalledEntry) => ({
  node_id: node.id,
  node_name: node.name,
  version: entry.version,
  digest: entry.digest,
})

function driftIn(group: readonly InstalledEntry[]): InstalledEntry[] {
  const usual = usualOf(group)
  return usual === null ? [] : group.filter(({ entry }) => !isSameBuild(entry, usual))
}

/** The build that most nodes have; among equals the offered one, else the newest. Null when no node reports its build. */
function usualOf(group: readonly InstalledEntry[]): InstalledBackend | null {
  const builds = [...Map.groupBy(group, ({ entry }) => keyOf(entry)).entries()].filter(([key]) => key !== '')
  const most = Math.max(0, ...builds.map(([, holders]) => holders.length))
  const tied = builds.filter(([, holders]) => holders.length === most).map(([, holders]) => holders)
  const offered = tied.find((holders) => holders.some(isCurrent))
  return (offered ?? tied.toSorted(newestFirst)[0])?.[0]?.entry ?? null
}

const keyOf = ({ digest, version }: Build): string => (digest === '' ? version : digest)
const isCurrent = ({ entry, offer }: { entry: Build; offer: AvailableBackend | null }): boolean =>
  offer !== null && entry.digest !== '' && entry.digest === offer.digest

function newestFirst(a: readonly InstalledEntry[], b: readonly InstalledEntry[]): number {
  const [ours, theirs] = [newest(a), newest(b)]
  return ours === theirs ? 0 : ours > theirs ? -1 : 1
}
const newest = (holders: readonly InstalledEntry[]): string =>
  holders.map(({ entry }) => entry.installed_at).reduce((max, at) => (at > max ? at : max), '')

export function mergeInventories(nodes: readonly NodeRecord[], available: readonly AvailableBackend[]): BackendView[] {
  return [...installedOf(nodes, available)].toSorted(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, installed]) => viewOf(installed))
}

function viewOf([first, ...others]: readonly InstalledEntry[]): BackendView[] {
  if (first === undefined) return []
  const installed: [InstalledEntry, ...InstalledEntry[]] = [first, ...others]
  const { is_system, is_meta, damaged: _, ...metadata } = first.entry
  const { hasUpgrade, view } = upgradeOf(installed)
  return [
    {
      name: metadata.name,
      is_system,
      is_meta,
      metadata,
      nodes: installed.map(shownNode),
      upgrade_available: hasUpgrade,
      drift: view.node_drift.length > 0,
    },
  ]
}

const shownNode = ({ node, entry: { version, digest, uri, installed_at, damaged } }: InstalledEntry): BackendView['nodes'][number] => ({
  node_id: node.id,
  node_name: node.name,
  node_status: statusOf(node).status,
  version,
  digest,
  uri,
  installed_at,
  ...(damaged === true ? { damaged } : {}),
})
