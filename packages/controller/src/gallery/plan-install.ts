// What an install means on each node, as of now: one plan per node that it fits, a reason for each that it does not.
import { abortable } from '@muster/host'
import type { BackendName, InstallRequest } from '@muster/protocol'
import type { NodeRecord } from '../store/nodes.ts'
import type { Catalogue, Offered } from './catalogue.ts'
import { findOffer, isOffered, unknownBackend, type NodeOffer } from './find-offer.ts'
import { planNodes, type PlannedNode } from './plan-nodes.ts'
import type { ResolveSource } from './resolve-source.ts'
import { invalidSource } from './source-error.ts'

export interface PlannerDeps {
  readonly catalogue: Catalogue
  readonly resolve: ResolveSource
  /** Resolves when a backend that is being assembled is offered; null for all others. */
  readonly arrivalOf?: (backend: BackendName) => Promise<Promise<void> | null>
}

/** As in the body of the request. */
export type WantedInstall = Readonly<Pick<InstallRequest, 'backend' | 'uri' | 'name' | 'alias' | 'digest' | 'version'>>
export type PlannedInstall = Readonly<{
  /** The name of the rows. */
  backend: BackendName
  nodes: readonly PlannedNode[]
}>
export type PlanInstall = (wanted: WantedInstall, nodes: readonly NodeRecord[], signal: AbortSignal) => Promise<PlannedInstall>

/** Throws SourceUnavailable, SourceForbidden or another FleetError; then nothing is to be queued. */
export function createPlanInstall(deps: PlannerDeps): PlanInstall {
  const { resolve } = deps
  return async (wanted, nodes, signal) => {
    const { backend, offerFor } = wanted.uri === undefined ? await fromGallery(wanted, deps, signal) : fromUri(wanted, wanted.uri)
    const exact = wanted.digest !== undefined || wanted.version !== undefined
    const offers = nodes.map((node) => ({ node, offer: offerFor(node) }))
    const planned = await planNodes(resolve, { offers, wish: { exact, strategy: null } }, signal)
    return { backend, nodes: planned.map((each) => withRoom(each, { backend, exact })) }
  }
}

type Offering = Readonly<{ backend: BackendName; offerFor: (node: NodeRecord) => NodeOffer }>

async function fromGallery(
  { backend, digest, version }: WantedInstall,
  { catalogue, arrivalOf }: PlannerDeps,
  signal: AbortSignal,
): Promise<Offering> {
  if (backend === undefined) throw invalidSource('say which backend to install')
  let offered: Offered = await catalogue()
  const arrival = isOffered(offered, backend) ? null : ((await arrivalOf?.(backend)) ?? null)
  if (arrival !== null) {
    await abortable(arrival, signal)
    offered = await catalogue()
  }
  if (!isOffered(offered, backend)) throw unknownBackend(offered, backend)
  const named = { backend, digest: digest ?? null, version: version ?? null }
  return { backend, offerFor: (node) => findOffer(offered, named, node) }
}

function fromUri({ name, alias, digest, version }: WantedInstall, uri: string): Offering {
  if (name === undefined) throw invalidSource('a uri needs the name it is installed as')
  const source = { uri, mirrors: [], sha256: '', digest: digest ?? null }
  const offer: NodeOffer = { kind: 'source', source, version: version ?? '', galleryUrl: '', name: null, alias: alias ?? null }
  return { backend: name, offerFor: () => offer }
}

/** What is there needs no room; any version of it will do unless one was asked for. */
function withRoom(planned: PlannedNode, { backend, exact }: { backend: BackendName; exact: boolean }): PlannedNode {
  if (planned.outcome === 'skipped') return planned
  const { node, plan } = planned
  const free = node.resources.available_disk
  const isThere = !exact && node.inventory.some(({ name }) => name === backend)
  if (isThere || free === null || plan.sizeBytes === null || plan.sizeBytes <= free) return planned
  return { node, outcome: 'skipped', reason: `${backend} needs ${plan.sizeBytes} bytes on disk, and ${free} are free` }
}
