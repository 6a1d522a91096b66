// What is known of the nodes that could have a model, gathered for placement/choose.
import { Digest, type BackendName, type ModelConfig, type ReplicaId } from '@muster/protocol'
import type { Catalogue, Offered } from '../gallery/catalogue.ts'
import { findOffer, isOffered, unknownBackend } from '../gallery/find-offer.ts'
import { effectiveLabels } from '../nodes/labels.ts'
import { statusOf } from '../nodes/view.ts'
import { applyVramBudget } from '../nodes/vram-budget.ts'
import type { IntentStore } from '../store/intents.ts'
import type { NodeRecord, NodeStore } from '../store/nodes.ts'
import type { PlacementStore } from '../store/placement.ts'
import { choosePlacement, type Candidate, type ModelContent, type Placement, type PlacementModel } from './choose.ts'

export interface PlaceDeps {
  readonly nodes: Pick<NodeStore, 'list'>
  readonly intents: Pick<IntentStore, 'installedUnlisted'>
  readonly placement: PlacementStore
  readonly catalogue: Catalogue
}
export type Wanted = Readonly<{
  config: ModelConfig
  purpose: 'serve' | 'stage'
  avoid: Candidate['id'] | null
  pin: Candidate['id'] | null
}>
/** Per node, the replicas that live there as it was decided. */
export type Seen = ReadonlyMap<Candidate['id'], readonly ReplicaId[]>
export type Place = (wanted: Wanted) => Promise<{ placement: Placement; model: PlacementModel; seen: Seen }>

/** A gallery is not read again for every load of a minute. */
const galleryAgeMs = 30_000

/** Throws a FleetError when no gallery offers the backend and no node has it. */
export function createPlace({ nodes: store, intents, placement, catalogue }: PlaceDeps): Place {
  return async ({ config, purpose, avoid, pin }) => {
    const [nodes, known, unlisted] = await Promise.all([
      store.list(),
      placement.facts(config.name),
      intents.installedUnlisted(config.backend),
    ])
    const hasBackend = ({ id, inventory }: NodeRecord): boolean => unlisted.has(id) || inventory.some(({ name }) => name === config.backend)
    const isStaging = purpose === 'stage'
    const isEverywhere = nodes.every(hasBackend)
    const offered = isStaging || isEverywhere ? null : await offering(config.backend, catalogue)
    if (offered !== null && !isOffered(offered, config.backend) && !nodes.some(hasBackend)) throw unknownBackend(offered, config.backend)
    const model: PlacementModel = {
      name: config.name,
      backend: config.backend,
      selector: config.scheduling.node_selector ?? null,
      files: config.files.map((file): ModelContent => {
        const digest = digestOf(file)
        return { digest, size: digest === null ? null : (known.sizes.get(digest) ?? null) }
      }),
      isStaging,
      isSpread: config.scheduling.replicas === 'all',
      avoid,
      pin,
    }
    const candidates = nodes.map((node) =>
      candidateOf(node, { hasBackend: hasBackend(node), backend: config.backend, offered, known: known.nodes.get(node.id) }),
    )
    const seen = new Map(nodes.map(({ id }) => [id, known.nodes.get(id)?.live ?? []]))
    return { placement: choosePlacement(model, candidates), model, seen }
  }
}

/** A reading of a moment ago will do, unless it lacks the backend: that may have been added since. */
async function offering(backend: BackendName, catalogue: Catalogue): Promise<Offered> {
  const recent = await catalogue({ maxAgeMs: galleryAgeMs })
  return isOffered(recent, backend) ? recent : await catalogue()
}

type Known = Readonly<{ files: ReadonlySet<string>; live: readonly ReplicaId[]; replicasOfModel: number }>

function candidateOf(
  node: NodeRecord,
  { hasBackend, backend, offered, known }: { hasBackend: boolean; backend: BackendName; offered: Offered | null; known: Known | undefined },
): Candidate {
  const { status, reason } = statusOf(node)
  const resources = applyVramBudget(node.resources, node.vramBudget)
  return {
    id: node.id,
    name: node.name,
    nodeType: node.nodeType,
    status,
    statusReason: reason,
    runsModels: node.features.includes('async'),
    labels: effectiveLabels(node),
    hasBackend,
    unfit: offered === null ? null : whyUnfit(offered, backend, node),
    files: known?.files ?? new Set(),
    availableDisk: resources.available_disk,
    totalRam: resources.total_ram,
    totalVram: resources.total_vram,
    replicas: known?.live.length ?? 0,
    replicasOfModel: known?.replicasOfModel ?? 0,
  }
}

function whyUnfit(offered: Offered, backend: BackendName, node: NodeRecord): string | null {
  const offer = findOffer(offered, { backend, digest: null, version: null }, node)
  return offer.kind === 'unfit' ? offer.reason : null
}

const uploaded = /^upload:(sha256:[0-9a-f]{64})$/
/** By which its content is known; null: by its address alone. */
function digestOf({ uri, sha256 }: ModelConfig['files'][number]): Digest | null {
  const found = sha256 === undefined ? uploaded.exec(uri)?.[1] : `sha256:${sha256}`
  return found === undefined ? null : Digest.parse(found)
}
