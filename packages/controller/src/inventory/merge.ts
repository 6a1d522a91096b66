// The backends of the whole cluster, from what each node said last. Pure.
import type { BackendView } from '@muster/protocol'
import { statusOf } from '../nodes/view.ts'
import type { AvailableBackend } from '../store/available.ts'
import type { NodeRecord } from '../store/nodes.ts'
import { installedOf, type Installed } from './installed.ts'
import { upgradeOf } from './upgrades.ts'

export function mergeInventories(nodes: readonly NodeRecord[], available: readonly AvailableBackend[]): BackendView[] {
  return [...installedOf(nodes, available)].toSorted(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, installed]) => viewOf(installed))
}

function viewOf([first, ...others]: readonly Installed[]): BackendView[] {
  if (first === undefined) return []
  const installed: [Installed, ...Installed[]] = [first, ...others]
  const { is_system, is_meta, ...metadata } = first.entry
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

const shownNode = ({ node, entry: { version, digest, uri, installed_at } }: Installed): BackendView['nodes'][number] => ({
  node_id: node.id,
  node_name: node.name,
  node_status: statusOf(node).status,
  version,
  digest,
  uri,
  installed_at,
})
