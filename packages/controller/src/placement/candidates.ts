// What is known of the nodes that could have a model, gathered for placement/choose. Nothing is reserved here: what was
// decided counts when its replica has a row, and whoever writes that sees by `seen` whether it was decided on what is so.
import { nodeStatus, type BackendName, type ModelConfig, type NodeId, type ReplicaId } from '@muster/protocol'
import type { Catalogue, Offered } from '../gallery/catalogue.ts'
import { findOffer, isOffered, unknownBackend } from '../gallery/find-offer.ts'
import { desiredReplicas, limitsOf } from '../models/desired.ts'
import { effectiveLabels } from '../nodes/labels.ts'
import { applyVramBudget } from '../nodes/view.ts'
import type { PlacementFile, PlacementNodeFacts, PlacementReplicaFacts, PlacementStore } from '../store/placement.ts'
import { choosePlacement, type Candidate, type Exclusion, type Placement, type PlacementModel } from './choose.ts'
import { contentOf } from './content-of.ts'
import { isSurelyReported, needOf, poolOf, type LiveReplica } from './room.ts'

export interface PlaceDeps {
  readonly placement: Pick<PlacementStore, 'replicas' | 'nodes'>
  readonly catalogue: Catalogue
  /** Requests under way at a replica, as its worker said it last. */
  readonly inFlight: (id: ReplicaId) => number
  /** No node was eligible, for these reasons. */
  readonly onRefused?: (excludedBy: ReadonlySet<Exclusion>) => void
}
export type Wanted = Readonly<{
  config: ModelConfig
  purpose: 'serve' | 'stage'
  avoid: NodeId | null
  pin: NodeId | null
  /** As if these had ended already. */
  without?: readonly ReplicaId[]
}>
/** Per node, the replicas that live there as it was decided. */
export type Seen = ReadonlyMap<NodeId, readonly ReplicaId[]>
export type Place = (wanted: Wanted) => Promise<{ placement: Placement; model: PlacementModel; seen: Seen }>

/** A gallery is not read again for every load of a minute. */
const galleryAgeMs = 30_000

/** Throws a FleetError when no gallery offers the backend and no node has it. */
export function createPlace({ placement: store, catalogue, inFlight, onRefused }: PlaceDeps): Place {
  return async ({ config, purpose, avoid, pin, without = [] }) => {
    const { replicas: all, uploads } = await store.replicas()
    const replicas = all.map((replica) => (without.includes(replica.id) ? { ...replica, state: 'vacated' as const } : replica))
    const digests = new Set([config, ...replicas].flatMap(({ files }) => files.flatMap((file) => contentOf(file) ?? [])))
    const nodes = await store.nodes({ backend: config.backend, digests: [...digests] })
    const hasBackend = (node: PlacementNodeFacts): boolean => node.hasBackend
    const offered = purpose === 'stage' || nodes.every(hasBackend) ? null : await offering(config.backend, catalogue)
    if (offered !== null && !isOffered(offered, config.backend) && !nodes.some(hasBackend)) throw unknownBackend(offered, config.backend)
    const sizeOf = sizesOf(nodes, uploads)
    const model: PlacementModel = {
      name: config.name,
      backend: config.backend,
      selector: config.scheduling.node_selector ?? null,
      files: config.files.map((file) => ({ digest: contentOf(file), size: sizeOf(file) })),
      priority: config.scheduling.priority ?? 0,
      isStaging: purpose === 'stage',
      isSpread: config.scheduling.replicas === 'all',
      ...{ avoid, pin },
    }
    const known: Known = {
      ...{ model, sizeOf, inFlight },
      artifactSizeFor: artifactSizes(nodes),
      unfitFor: offered === null ? () => null : reasonsUnfit(offered, config.backend),
    }
    const onNode = Map.groupBy(replicas, ({ nodeId }) => nodeId)
    const candidates = nodes.map((node) => candidateOf(node, onNode.get(node.id) ?? [], known))
    const placement = choosePlacement(model, candidates)
    const isRefused = placement.nodes[0]?.eligible !== true
    if (isRefused && without.length === 0) onRefused?.(new Set(placement.nodes.flatMap(({ excludedBy }) => excludedBy ?? [])))
    return { placement, model, seen: new Map(candidates.map(({ id, replicas: live }) => [id, live.map((replica) => replica.id)])) }
  }
}

/** A reading of a moment ago will do, unless it lacks the backend: that may have been added since. */
async function offering(backend: BackendName, catalogue: Catalogue): Promise<Offered> {
  const recent = await catalogue({ maxAgeMs: galleryAgeMs })
  return isOffered(recent, backend) ? recent : await catalogue()
}

type SizeOf = (file: PlacementFile) => number | null

/** Of every content that some node keeps, or that was uploaded. */
function sizesOf(nodes: readonly PlacementNodeFacts[], uploads: ReadonlyMap<string, number>): SizeOf {
  const sizes = new Map<string, number>(uploads)
  for (const { files } of nodes) for (const [digest, size] of files) sizes.set(digest, size)
  return (file) => sizes.get(contentOf(file) ?? '') ?? null
}

type Traits = Pick<PlacementNodeFacts, 'os' | 'arch' | 'capability'>
const kindOf = ({ os, arch, capability }: Traits): string => `${os}/${arch} ${capability}`

/** What it was on a node of the same kind: asking the source at every placement would take longer than most loads. */
function artifactSizes(nodes: readonly PlacementNodeFacts[]): (node: PlacementNodeFacts) => number | null {
  const sizes = new Map<string, number>()
  for (const node of nodes)
    if (node.artifactSize !== null) sizes.set(kindOf(node), Math.max(node.artifactSize, sizes.get(kindOf(node)) ?? 0))
  return (node) => node.artifactSize ?? sizes.get(kindOf(node)) ?? null
}

function reasonsUnfit(offered: Offered, backend: BackendName): (node: Traits) => string | null {
  const reasons = new Map<string, string | null>()
  return (node) => {
    const known = reasons.get(kindOf(node))
    if (known !== undefined) return known
    const offer = findOffer(offered, { backend, digest: null, version: null }, node)
    const reason = offer.kind === 'unfit' ? offer.reason : null
    reasons.set(kindOf(node), reason)
    return reason
  }
}

type Known = Readonly<{
  model: PlacementModel
  sizeOf: SizeOf
  inFlight: PlaceDeps['inFlight']
  artifactSizeFor: (node: PlacementNodeFacts) => number | null
  unfitFor: (node: Traits) => string | null
}>

/** `vacated`: it is taken for gone. */
type Placed = Omit<PlacementReplicaFacts, 'state'> & Readonly<{ state: PlacementReplicaFacts['state'] | 'vacated' }>

function candidateOf(node: PlacementNodeFacts, there: readonly Placed[], known: Known): Candidate {
  const { status, reason } = nodeStatus(node)
  const resources = applyVramBudget(node.resources, node.vramBudget)
  const files: ReadonlySet<string> = new Set(node.files.keys())
  const needOfReplica = (replica: Placed): number => needOf(replica.files.map(known.sizeOf))
  const sumOf = (counts: (replica: Placed) => boolean): number =>
    there.reduce((sum, replica) => sum + (counts(replica) ? needOfReplica(replica) : 0), 0)
  return {
    id: node.id,
    name: node.name,
    nodeType: node.nodeType,
    status,
    statusReason: reason,
    runsModels: node.features.includes('async'),
    labels: known.model.selector === null ? {} : effectiveLabels(node),
    hasBackend: node.hasBackend,
    unfit: node.hasBackend ? null : known.unfitFor(node),
    artifactSize: node.hasBackend ? null : known.artifactSizeFor(node),
    files,
    pool: poolOf(resources, node.capability),
    maxReplicas: resources.max_replicas ?? null,
    availableDisk: resources.available_disk,
    awaitedDisk: there.reduce((sum, replica) => sum + awaitedBy(replica, files, known.sizeOf), 0),
    replicas: there.flatMap((replica) => liveOf(replica, needOfReplica(replica), known.inFlight) ?? []),
    vacated: sumOf(({ state, readyMs }) => state === 'vacated' && readyMs !== null),
    toCome: sumOf(({ state, readyMs, exitedBeforeMs }) => state === 'exited' && readyMs !== null && !isSurelyReported(exitedBeforeMs)),
  }
}

/** What it has yet to fetch; what came already is missing from what is free. */
function awaitedBy({ state, files, fetchedBytes }: Placed, kept: ReadonlySet<string>, sizeOf: SizeOf): number {
  if (state !== 'starting') return 0
  const missing = files.filter((file) => !kept.has(contentOf(file) ?? ''))
  return Math.max(0, missing.reduce((sum, file) => sum + (sizeOf(file) ?? 0), 0) - fetchedBytes)
}

function liveOf(facts: Placed, need: number, inFlight: PlaceDeps['inFlight']): LiveReplica | null {
  const { id, model, state, isCurrent, hasLoad, scheduling } = facts
  if (state === 'exited' || state === 'vacated') return null
  return {
    ...{ id, model, state, need, isCurrent, hasLoad, isReported: isSurelyReported(facts.readyBeforeMs) },
    isServing: state === 'ready' && facts.isChecked,
    priority: scheduling.priority ?? 0,
    min: limitsOf(scheduling).min,
    desired: desiredReplicas({ scheduling, requestedReplicas: facts.requestedReplicas, isUnloaded: facts.isModelUnloaded }, 0),
    isSpread: scheduling.replicas === 'all',
    readyMs: facts.readyMs ?? 0,
    unusedMs: facts.unusedMs ?? Infinity,
    inFlight: inFlight(id),
  }
}
