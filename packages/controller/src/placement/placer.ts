// Gathers the facts about all nodes and chooses a placement (placement.pure.ts). Nothing is reserved: a placement takes
// effect when the replica's row is written, and the writer compares `seen` to detect a decision on stale facts.
import {
  type BackendName,
  Digest,
  isArriving,
  type ModelConfig,
  type NodeId,
  nodeStatus,
  type OperationId,
  type ReplicaId,
} from '@muster/protocol'
import { type Catalogue, findOffer, isOffered, type Offers, unknownBackend } from '../gallery/catalogue.ts'
import { SourceUnavailable } from '../gallery/resolve-source.ts'
import { desiredReplicas, limitsOf } from '../loads/replica-set.pure.ts'
import { effectiveLabels } from '../nodes/labels.ts'
import { applyVramBudget, limitsInEffect } from '../nodes/limits.ts'
import type { PlacementFile, PlacementNodeFacts, PlacementReplicaFacts, PlacementStore } from '../store/placement.ts'
import { type Candidate, choosePlacement, type Exclusion, type Placement, type PlacementModel } from './placement.pure.ts'
import { isReportedFor, type LiveReplica, needOf, poolOf } from './room.pure.ts'

export interface PlacerDeps {
  readonly placement: Pick<PlacementStore, 'replicas' | 'nodes'>
  readonly catalogue: Catalogue
  /** Open requests of a replica, as its worker last reported. */
  readonly inFlight: (id: ReplicaId) => number
  /** Read at each placement; default: `refuse`. */
  readonly diskCheck?: () => PlacementModel['diskCheck']
  /** Called when no node is eligible. */
  readonly onRefused?: (excludedBy: ReadonlySet<Exclusion>) => void
}
export type PlacementRequest = Readonly<{
  config: ModelConfig
  purpose: 'serve' | 'stage'
  avoid: NodeId | null
  pin: NodeId | null
  /** Treats these replicas as ended. */
  without?: readonly ReplicaId[]
  /** Treats the model as loaded on this node again: an unload there does not count. */
  loadedOn?: NodeId
}>
/** Live replicas per node at the time of the decision. */
export type ReplicaSnapshot = ReadonlyMap<NodeId, readonly ReplicaId[]>
export type Placer = (request: PlacementRequest) => Promise<{ placement: Placement; model: PlacementModel; seen: ReplicaSnapshot }>

/** Placements within this time share one reading of the galleries. */
const galleryAgeMs = 30_000

/** Throws a FleetError when no gallery offers the backend and no node has it or gets it. */
export function createPlacer({ placement: store, catalogue, inFlight, diskCheck, onRefused }: PlacerDeps): Placer {
  return async ({ config, purpose, avoid, pin, without = [], loadedOn }) => {
    const { replicas: all, uploads } = await store.replicas()
    const replicas = all.map((replica) => (without.includes(replica.id) ? { ...replica, state: 'vacated' as const } : replica))
    const digests = new Set([config, ...replicas].flatMap(({ files }) => files.flatMap((file) => contentOf(file) ?? [])))
    const nodes = await store.nodes({ model: config.name, backend: config.backend, digests: [...digests] })
    const isNeeded = purpose !== 'stage' && !nodes.every(({ hasBackend }) => hasBackend)
    const offers = isNeeded ? await readOffers(config.backend, catalogue, nodes) : null
    const unknown =
      offers === null || nodes.some((node) => hasOrGets(node) || node.isDamaged) ? null : unknownReason(offers, config.backend, nodes)
    if (unknown !== null) throw unknown
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
      diskCheck: diskCheck?.() ?? 'refuse',
    }
    const facts: PlacementFacts = {
      ...{ model, sizeOf, inFlight },
      artifactSizeFor: artifactSizes(nodes),
      unfitFor: offers === null ? () => null : reasonsUnfit(offers, config.backend),
    }
    const onNode = Map.groupBy(replicas, ({ nodeId }) => nodeId)
    const candidates = nodes.map((node) =>
      candidateOf({ ...node, isUnloaded: node.isUnloaded && node.id !== loadedOn }, onNode.get(node.id) ?? [], facts),
    )
    const placement = choosePlacement(model, candidates)
    const isRefused = placement.nodes[0]?.eligible !== true
    if (isRefused && without.length === 0) onRefused?.(new Set(placement.nodes.flatMap(({ excludedBy }) => excludedBy ?? [])))
    return { placement, model, seen: new Map(candidates.map(({ id, replicas: live }) => [id, live.map((replica) => replica.id)])) }
  }
}

/** The backend is on the node, or is being installed there. */
const hasOrGets = ({ hasBackend, install }: PlacementNodeFacts): boolean => hasBackend || install !== null

/** A recent reading is enough, unless it lacks a backend that no node has: it may be offered since. */
async function readOffers(backend: BackendName, catalogue: Catalogue, nodes: readonly PlacementNodeFacts[]): Promise<Offers> {
  const recent = await catalogue({ maxAgeMs: galleryAgeMs })
  const isEnough = nodes.some(hasOrGets) ? isOffered(recent, backend) : unknownReason(recent, backend, nodes) === null
  return isEnough ? recent : await catalogue()
}

/** Null when a node may install the backend, or only the fit of the nodes is in question. */
function unknownReason(offers: Offers, backend: BackendName, nodes: readonly Traits[]): Error | null {
  if (!isOffered(offers, backend)) return unknownBackend(offers, backend)
  if (offers.problems.length === 0) return null
  const kinds = [...new Map(nodes.map((node) => [kindOf(node), node])).values()]
  const found = kinds.map((node) => findOffer(offers, { backend, gallery: null, digest: null, version: null }, node))
  const reasons = found.flatMap((offer) => (offer.kind === 'unread' ? [offer.reason] : []))
  return reasons[0] !== undefined && reasons.length === found.length ? new SourceUnavailable(reasons[0]) : null
}

type SizeOf = (file: PlacementFile) => number | null

/** Sizes of all files that a node has or that were uploaded. */
function sizesOf(nodes: readonly PlacementNodeFacts[], uploads: ReadonlyMap<string, number>): SizeOf {
  const sizes = new Map<string, number>(uploads)
  for (const { files } of nodes) for (const [digest, size] of files) sizes.set(digest, size)
  return (file) => sizes.get(contentOf(file) ?? '') ?? null
}

type Traits = Pick<PlacementNodeFacts, 'os' | 'arch' | 'capability'>
const kindOf = ({ os, arch, capability }: Traits): string => `${os}/${arch} ${capability}`

/** The backend's size on a node of the same kind. Querying the source at every placement would take longer than most loads. */
function artifactSizes(nodes: readonly PlacementNodeFacts[]): (node: PlacementNodeFacts) => number | null {
  const sizes = new Map<string, number>()
  for (const node of nodes)
    if (node.artifactSize !== null) sizes.set(kindOf(node), Math.max(node.artifactSize, sizes.get(kindOf(node)) ?? 0))
  return (node) => node.artifactSize ?? sizes.get(kindOf(node)) ?? null
}

function reasonsUnfit(offers: Offers, backend: BackendName): (node: Traits) => string | null {
  const reasons = new Map<string, string | null>()
  return (node) => {
    const cached = reasons.get(kindOf(node))
    if (cached !== undefined) return cached
    const offer = findOffer(offers, { backend, gallery: null, digest: null, version: null }, node)
    const reason = offer.kind === 'source' ? null : offer.reason
    reasons.set(kindOf(node), reason)
    return reason
  }
}

type PlacementFacts = Readonly<{
  model: PlacementModel
  sizeOf: SizeOf
  inFlight: PlacerDeps['inFlight']
  artifactSizeFor: (node: PlacementNodeFacts) => number | null
  unfitFor: (node: Traits) => string | null
}>

function unfitReason(node: PlacementNodeFacts, { model, unfitFor }: PlacementFacts): string | null {
  const reason = unfitFor(node)
  return reason !== null && node.isDamaged ? `${model.backend} is damaged there: ${reason}` : reason
}

/** `vacated`: treated as ended. */
type NodeReplica = Omit<PlacementReplicaFacts, 'state'> & Readonly<{ state: PlacementReplicaFacts['state'] | 'vacated' }>

function candidateOf(node: PlacementNodeFacts, replicas: readonly NodeReplica[], facts: PlacementFacts): Candidate {
  const { status, reason } = nodeStatus(node)
  const resources = applyVramBudget(node.resources, node.vramBudget)
  const files: ReadonlySet<string> = new Set(node.files.keys())
  const needOfReplica = (replica: NodeReplica): number => needOf(replica.files.map(facts.sizeOf))
  const sumOf = (counts: (replica: NodeReplica) => boolean): number =>
    replicas.reduce((sum, replica) => sum + (counts(replica) ? needOfReplica(replica) : 0), 0)
  return {
    id: node.id,
    name: node.name,
    nodeType: node.nodeType,
    status,
    statusReason: reason,
    isArriving: isArriving(node),
    runsModels: node.features.includes('async'),
    labels: facts.model.selector === null ? {} : effectiveLabels(node),
    hasBackend: node.hasBackend,
    installId: installToFollow(node, facts),
    unfit: hasOrGets(node) ? null : unfitReason(node, facts),
    artifactSize: node.hasBackend ? null : facts.artifactSizeFor(node),
    isUnloaded: node.isUnloaded,
    files,
    pool: poolOf(resources, node.capability),
    maxReplicas: resources.max_replicas ?? null,
    maxReplicasPerModel: limitsInEffect(node).max_replicas_per_model?.value ?? null,
    availableDisk: resources.available_disk,
    awaitedDisk: replicas.reduce((sum, replica) => sum + awaitedBy(replica, files, facts.sizeOf), 0),
    replicas: replicas.flatMap((replica) => liveOf(replica, needOfReplica(replica), facts.inFlight) ?? []),
    vacatedMemory: sumOf(({ state, readyMs }) => state === 'vacated' && readyMs !== null),
    pendingMemory: sumOf(({ state, readyMs, exitedBeforeMs }) => state === 'exited' && readyMs !== null && !isReportedFor(exitedBeforeMs)),
  }
}

/** A load follows an install that is under way. One that failed is submitted again, which retries it at once, if it is still offered. */
function installToFollow({ hasBackend, install, ...node }: PlacementNodeFacts, { unfitFor }: PlacementFacts): OperationId | null {
  if (hasBackend || install === null) return null
  return install.isFailing && unfitFor(node) === null ? null : install.id
}

/** Bytes still to fetch. Fetched bytes are already missing from the free space. */
function awaitedBy({ state, files, fetchedBytes }: NodeReplica, kept: ReadonlySet<string>, sizeOf: SizeOf): number {
  if (state !== 'starting') return 0
  const missing = files.filter((file) => !kept.has(contentOf(file) ?? ''))
  return Math.max(0, missing.reduce((sum, file) => sum + (sizeOf(file) ?? 0), 0) - fetchedBytes)
}

function liveOf(replica: NodeReplica, need: number, inFlight: PlacerDeps['inFlight']): LiveReplica | null {
  const { id, model, state, isCurrent, hasLoad, scheduling } = replica
  if (state === 'exited' || state === 'vacated') return null
  return {
    ...{ id, model, state, need, isCurrent, hasLoad, isReported: isReportedFor(replica.readyBeforeMs) },
    isServing: state === 'ready' && replica.isChecked,
    priority: scheduling.priority ?? 0,
    min: limitsOf(scheduling).min,
    desired: desiredReplicas({ scheduling, requestedReplicas: replica.requestedReplicas, isUnloaded: replica.isModelUnloaded }, 0),
    isSpread: scheduling.replicas === 'all',
    readyMs: replica.readyMs ?? 0,
    unusedMs: replica.unusedMs ?? Infinity,
    inFlight: inFlight(id),
  }
}

const uploaded = /^upload:(sha256:[0-9a-f]{64})$/

/** The digest of a model's file; null: only its address is known. */
function contentOf({ uri, sha256 }: Readonly<{ uri: string; sha256?: string | undefined }>): Digest | null {
  const found = sha256 === undefined ? uploaded.exec(uri)?.[1] : `sha256:${sha256}`
  return Digest.safeParse(found).data ?? null
}
