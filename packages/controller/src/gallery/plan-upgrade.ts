// What an upgrade means on each node that has the backend, or waits for it: the content that its source means now.
import type { BackendName, Strategy } from '@muster/protocol'
import type { Plan } from '../store/plan.ts'
import type { NodeRecord } from '../store/nodes.ts'
import type { Offered } from './catalogue.ts'
import { findOffer, isOffered, unknownBackend, type NodeOffer } from './find-offer.ts'
import type { PlannerDeps } from './plan-install.ts'
import { planNodes, type PlannedNode } from './plan-nodes.ts'

export type UpgradeTarget = Readonly<{ node: NodeRecord; /** Of an install that is still open there. */ openPlan: Plan | null }>
export type WantedUpgrade = Readonly<{ backend: BackendName; strategy: Strategy | null }>
export type PlanUpgrade = (wanted: WantedUpgrade, targets: readonly UpgradeTarget[], signal: AbortSignal) => Promise<PlannedNode[]>

/** Throws as an install does. */
export function createPlanUpgrade({ catalogue, resolve }: PlannerDeps): PlanUpgrade {
  return async ({ backend, strategy }, targets, signal) => {
    const offered = await catalogue()
    const offers = targets.map((target) => ({ node: target.node, offer: offerFor(offered, backend, target) }))
    return await planNodes(resolve, { offers, wish: { exact: false, strategy } }, signal)
  }
}

/** What is in no gallery comes from where it came from before. */
function offerFor(offered: Offered, backend: BackendName, { node, openPlan }: UpgradeTarget): NodeOffer {
  if (isOffered(offered, backend)) return findOffer(offered, { backend, digest: null, version: null }, node)
  return offerOfRecord({ backend, node, openPlan }) ?? missing(offered, backend, node)
}

export function offerOfRecord({ backend, node, openPlan }: UpgradeTarget & { readonly backend: BackendName }): NodeOffer | null {
  const record = node.inventory.find(({ name }) => name === backend)
  const uri = openPlan?.uri ?? record?.uri ?? ''
  if (uri === '') return null
  const digest = openPlan?.digest ?? record?.digest ?? ''
  const sha256 = /^https?:/i.test(uri) ? digest.replace(/^sha256:/, '') : ''
  const mirrors = openPlan?.mirrors ?? []
  const { name = null, alias = null, version = record?.version ?? '' } = openPlan ?? {}
  return {
    kind: 'source',
    source: { uri, mirrors, sha256, digest: null },
    version,
    galleryUrl: openPlan?.galleryUrl ?? record?.gallery_url ?? '',
    name,
    alias,
  }
}

function missing(offered: Offered, backend: BackendName, node: NodeRecord): NodeOffer {
  const unknown = unknownBackend(offered, backend)
  if (offered.problems.length > 0) throw unknown
  return { kind: 'unfit', reason: `no gallery offers ${backend}, and node ${node.name} does not say where its own came from` }
}
