// Who has what, with what is on offer for it there. Pure.
import { BackendName, type InstalledBackend } from '@muster/protocol'
import { platformOf, formatPlatform } from '@muster/source'
import type { AvailableBackend } from '../store/available.ts'
import type { NodeRecord } from '../store/nodes.ts'

export type Installed = Readonly<{
  node: NodeRecord
  entry: InstalledBackend
  offer: AvailableBackend | null
  /** Nodes for which one build is right: the same machine, and the same backend behind the name. */
  group: string
}>

/** The kind of node, as far as it decides what suits it. */
export const kindOfNode = ({ os, arch, capability }: NodeRecord): string => `${machineOf({ os, arch })} ${capability}`
const machineOf = ({ os, arch }: Pick<NodeRecord, 'os' | 'arch'>): string => formatPlatform(platformOf({ platform: os, arch }))

const byName = (a: NodeRecord, b: NodeRecord): number => (a.name === b.name ? (a.id < b.id ? -1 : 1) : a.name < b.name ? -1 : 1)

/** By backend, the nodes sorted by name. Nodes that are away have what they had. */
export function installedOf(nodes: readonly NodeRecord[], available: readonly AvailableBackend[]): Map<BackendName, Installed[]> {
  const offers = Map.groupBy(available, ({ backend, platform }) => JSON.stringify([backend, platform]))
  const found = new Map<BackendName, Installed[]>()
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

/** What is in no gallery is on offer under the uri it came from. */
const offerFor = (entry: InstalledBackend, offers: readonly AvailableBackend[]): AvailableBackend | null =>
  offers.find(({ concrete }) => concrete === entry.uri) ?? offers.find(({ concrete }) => isName(concrete)) ?? null

const isName = (concrete: string): boolean => BackendName.safeParse(concrete).success

function groupOf(entry: InstalledBackend, { offer, node }: { offer: AvailableBackend | null; node: NodeRecord }): string {
  if (offer !== null && isName(offer.concrete)) return offer.concrete
  return entry.is_meta ? node.capability : ''
}
