// Gathers the facts about all nodes and chooses a placement (placement.pure.ts). Nothing is reserved: a placement takes
// effect when the replica's row is written, and the writer compares `seen` to detect a decision on stale facts.
import {
  type BackendName,
  isArriving,
  type ModelConfig,
  type NodeId,
  nodeStatus,
  type OperationId,
  type ReplicaId,
  type Resources,
} from '@muster/protocol'
import { type Catalogue, findOffer, isOffered, type Offers, unknownBackend } from '../gallery/catalogue.ts'
import { SourceUnavailable } from '../gallery/resolve-source.ts'
import { desiredReplicas, limitsOf } from '../loads/replica-set.pure.ts'
import { effectiveLabels } from '../nodes/labels.ts'
import { applyVramBudget, limitsInEffect } from '../nodes/limits.ts'
import type { Booking, PlacementNodeFacts, PlacementReplicaFacts, PlacementStore } from '../store/placement.ts'
import { contentOf, createFileLookup, type FileLookup, hasUnnamedContent, isUnread, memoriesOf, withRemote } from './file-lookup.ts'
import { deviceOf, MemoryConfig, type ModelMemory, memoryOf, unknownMemory } from './memory.pure.ts'
import {
  type Candidate,
  type Card,
  chooseCard,
  choosePlacement,
  type Exclusion,
  type Placement,
  type PlacementModel,
} from './placement.pure.ts'
import type { ReadHeaders } from './source-headers.ts'
import { isReportedFor, type LiveReplica, type Memory, noMemory, poolsOf } from './room.pure.ts'

export interface PlacerDeps {
  readonly placement: Pick<PlacementStore, 'replicas' | 'nodes' | 'files'>
  readonly catalogue: Catalogue
  /** Open requests of a replica, as its worker last reported. */
  readonly inFlight: (id: ReplicaId) => number
  /** Read at each placement; default: `refuse`. */
  readonly diskCheck?: () => PlacementModel['diskCheck']
  /** Reads headers of files that no worker has yet; left out: only stored facts count. */
  readonly readHeaders?: ReadHeaders | undefined
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
export type Placer = (request: PlacementRequest) => Promise<PlacementChoice>
export interface PlacementChoice {
  readonly placement: Placement
  readonly model: PlacementModel
  readonly candidates: readonly Candidate[]
  readonly seen: ReplicaSnapshot
  /** Where the memory of a replica is booked on a node; null for an unknown node. */
  readonly bookingOn: (id: NodeId) => Booking | null
}

/** Placements within this time share one reading of the galleries. */
const galleryAgeMs = 30_000

/** Throws a FleetError when no gallery offers the backend and no node has it or gets it. */
export function createPlacer({ placement: store, catalogue, inFlight, diskCheck, readHeaders, onRefused }: PlacerDeps): Placer {
  return async ({ config, purpose, avoid, pin, without = [], loadedOn }) => {
    const { replicas: all, uploads } = await store.replicas()
    const replicas = all.map((replica) => (without.includes(replica.id) ? { ...replica, state: 'vacated' as const } : replica))
    const hashes = new Set([config, ...replicas].flatMap(({ files }) => files.flatMap((file) => contentOf(file) ?? [])))
    const unnamed = new Set([config.name, ...replicas.filter(hasUnnamedContent).map(({ model }) => model)])
    const stored = await store.files({ digests: [...hashes], models: [...unnamed] })
    const unread = readHeaders === undefined ? [] : config.files.filter((file) => isUnread(stored, config.name, file))
    const known = unread.length === 0 ? stored : withRemote(stored, (await readHeaders?.(config.name, unread)) ?? [])
    const digests = new Set([...hashes, ...[...known.byName.values()].flatMap(({ digest }) => digest ?? [])])
    const nodes = await store.nodes({ model: config.name, backend: config.backend, digests: [...digests] })
    const isNeeded = purpose !== 'stage' && !nodes.every(({ hasBackend }) => hasBackend)
    const offers = isNeeded ? await readOffers(config.backend, catalogue, nodes) : null
    const unknown =
      offers === null || nodes.some((node) => hasOrGets(node) || node.isDamaged) ? null : unknownReason(offers, config.backend, nodes)
    if (unknown !== null) throw unknown
    const look = createFileLookup(nodes, uploads, known)
    const memory = purpose === 'stage' ? unknownMemory : memoryOf(MemoryConfig.parse(config), (file) => look(config.name, file))
    const model: PlacementModel = {
      name: config.name,
      backend: config.backend,
      selector: config.scheduling.node_selector ?? null,
      files: config.files.map((file) => ({ digest: look(config.name, file).digest, size: look(config.name, file).size })),
      memory,
      priority: config.scheduling.priority ?? 0,
      isStaging: purpose === 'stage',
      isSpread: config.scheduling.replicas === 'all',
      ...{ avoid, pin },
      diskCheck: diskCheck?.() ?? 'refuse',
    }
    const facts: PlacementFacts = {
      ...{ model, look, inFlight },
      memoryOfReplica: memoriesOf(look),
      artifactSizeFor: artifactSizes(nodes),
      offerFor: offers === null ? () => anyOffer : offersByKind(offers, config.backend),
    }
    const onNode = Map.groupBy(replicas, ({ nodeId }) => nodeId)
    const candidates = nodes.map((node) =>
      candidateOf({ ...node, isUnloaded: node.isUnloaded && node.id !== loadedOn }, onNode.get(node.id) ?? [], facts),
    )
    const placement = choosePlacement(model, candidates)
    const isRefused = placement.nodes[0]?.eligible !== true
    if (isRefused && without.length === 0) onRefused?.(new Set(placement.nodes.flatMap(({ excludedBy }) => excludedBy ?? [])))
    return {
      ...{ placement, model, candidates, bookingOn: bookingsOf(candidates, memory) },
      seen: new Map(candidates.map(({ id, replicas: live }) => [id, live.map((replica) => replica.id)])),
    }
  }
}

const bookingsOf =
  (candidates: readonly Candidate[], memory: ModelMemory): PlacementChoice['bookingOn'] =>
  (id) => {
    const node = candidates.find((each) => each.id === id)
    return node === undefined ? null : { device: node.device, card: chooseCard(node, memory[node.device]) }
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

type Traits = Pick<PlacementNodeFacts, 'os' | 'arch' | 'capability'>
const kindOf = ({ os, arch, capability }: Traits): string => `${os}/${arch} ${capability}`

/** The backend's size on a node of the same kind. Querying the source at every placement would take longer than most loads. */
function artifactSizes(nodes: readonly PlacementNodeFacts[]): (node: PlacementNodeFacts) => number | null {
  const sizes = new Map<string, number>()
  for (const node of nodes)
    if (node.artifactSize !== null) sizes.set(kindOf(node), Math.max(node.artifactSize, sizes.get(kindOf(node)) ?? 0))
  return (node) => node.artifactSize ?? sizes.get(kindOf(node)) ?? null
}

/** Why the backend cannot be installed on a node, and the build that would be. */
type KindOffer = Readonly<{ unfit: string | null; build: string }>
const anyOffer: KindOffer = { unfit: null, build: '' }

function offersByKind(offers: Offers, backend: BackendName): (node: Traits) => KindOffer {
  const known = new Map<string, KindOffer>()
  return (node) => {
    const cached = known.get(kindOf(node))
    if (cached !== undefined) return cached
    const offer = findOffer(offers, { backend, gallery: null, digest: null, version: null }, node)
    const found =
      offer.kind === 'source' ? { unfit: null, build: `${offer.source.uri} ${offer.name ?? ''}` } : { ...anyOffer, unfit: offer.reason }
    known.set(kindOf(node), found)
    return found
  }
}

type PlacementFacts = Readonly<{
  model: PlacementModel
  look: FileLookup
  memoryOfReplica: (replica: NodeReplica) => ModelMemory
  inFlight: PlacerDeps['inFlight']
  artifactSizeFor: (node: PlacementNodeFacts) => number | null
  offerFor: (node: Traits) => KindOffer
}>

function unfitReason(node: PlacementNodeFacts, { model, offerFor }: PlacementFacts): string | null {
  const { unfit: reason } = offerFor(node)
  return reason !== null && node.isDamaged ? `${model.backend} is damaged there: ${reason}` : reason
}

/** `vacated`: treated as ended. */
type NodeReplica = Omit<PlacementReplicaFacts, 'state'> & Readonly<{ state: PlacementReplicaFacts['state'] | 'vacated' }>

function candidateOf(node: PlacementNodeFacts, replicas: readonly NodeReplica[], facts: PlacementFacts): Candidate {
  const { status, reason } = nodeStatus(node)
  const resources = applyVramBudget(node.resources, node.vramBudget)
  const files: ReadonlySet<string> = new Set(node.files.keys())
  const needOfReplica = (replica: NodeReplica): Memory => bookedBy(replica, { node, resources, memory: facts.memoryOfReplica(replica) })
  const sumOf = (counts: (replica: NodeReplica) => boolean): Memory =>
    replicas.reduce((sum, replica) => (counts(replica) ? added(sum, needOfReplica(replica)) : sum), noMemory)
  const build = node.hasBackend ? node.build : facts.offerFor(node).build
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
    ...poolsOf(resources),
    device: deviceOf({ resources, capability: node.capability, build }, facts.model.memory),
    cards: cardsOf(resources),
    maxReplicas: resources.max_replicas ?? null,
    maxReplicasPerModel: limitsInEffect(node).max_replicas_per_model?.value ?? null,
    availableDisk: resources.available_disk,
    awaitedDisk: replicas.reduce((sum, replica) => sum + awaitedBy(replica, files, facts.look), 0),
    replicas: replicas.flatMap((replica) => liveOf(replica, needOfReplica(replica), facts.inFlight) ?? []),
    vacatedMemory: sumOf(({ state, readyMs }) => state === 'vacated' && readyMs !== null),
    pendingMemory: sumOf(({ state, readyMs, exitedBeforeMs }) => state === 'exited' && readyMs !== null && !isReportedFor(exitedBeforeMs)),
  }
}

/** A load follows an install that is under way. One that failed is submitted again, which retries it at once, if it is still offered. */
function installToFollow({ hasBackend, install, ...node }: PlacementNodeFacts, { offerFor }: PlacementFacts): OperationId | null {
  if (hasBackend || install === null) return null
  return install.isFailing && offerFor(node).unfit === null ? null : install.id
}

/** Bytes still to fetch. Fetched bytes are already missing from the free space. */
function awaitedBy({ state, model, files, fetchedBytes }: NodeReplica, kept: ReadonlySet<string>, look: FileLookup): number {
  if (state !== 'starting') return 0
  const missing = files.map((file) => look(model, file)).filter(({ digest }) => !kept.has(digest ?? ''))
  return Math.max(0, missing.reduce((sum, { size }) => sum + (size ?? 0), 0) - fetchedBytes)
}

type Booked = Readonly<{ node: PlacementNodeFacts; resources: Resources; memory: ModelMemory }>

/** The memory of a live replica, where it was booked. Replicas of older controllers count on the GPU of a node that has one. */
function bookedBy({ booking }: NodeReplica, { node: { capability }, resources, memory }: Booked): Memory {
  return memory[booking?.device ?? deviceOf({ resources, capability, build: '' }, memory)]
}

const added = (a: Memory, b: Memory): Memory => ({ ram: a.ram + b.ram, vram: a.vram + b.vram })

/** A unified node has no card of its own memory. */
const cardsOf = ({ gpus = [], unified_memory: isUnified }: Resources): readonly Card[] =>
  isUnified ? [] : gpus.map(({ index, uuid, name, total, free }) => ({ id: uuid ?? String(index), name, total, available: free }))

function liveOf(replica: NodeReplica, need: Memory, inFlight: PlacerDeps['inFlight']): LiveReplica | null {
  const { id, model, state, isCurrent, hasLoad, scheduling } = replica
  if (state === 'exited' || state === 'vacated') return null
  return {
    ...{
      id,
      model,
      state,
      need,
      card: replica.booking?.card ?? null,
      isCurrent,
      hasLoad,
      isReported: isReportedFor(replica.readyBeforeMs),
    },
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
