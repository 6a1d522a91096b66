// What the galleries offer, and which nodes each entry fits. Pure.
import type { BackendName, OfferedBackend } from '@muster/protocol'
import { chooseBackend, isMeta, type GalleryEntry } from '@muster/source'
import type { Offered } from '../gallery/catalogue.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { kindOfNode } from './installed.ts'

/** Of several entries of one name the first counts, so only that one is shown. */
export function offeredBackends({ galleries }: Offered, nodes: readonly NodeRecord[]): OfferedBackend[] {
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
  { galleries, name }: { galleries: Offered['galleries']; name: BackendName },
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
