// Chooses the node for a replica, and names the reason that excludes each other node.
import {
  type Digest,
  type Failure,
  findMismatchedLabel,
  formatBytes,
  type MemoryParts,
  type ModelName,
  type NodeId,
  type NodeMemory,
  type NodeStatus,
  type NodeType,
  type OperationId,
  type PlacementNode,
  type PlacementView,
  type Selector,
} from '@muster/protocol'
import type { NodeRecord } from '../store/nodes.ts'
import type { SpreadFacts } from '../store/placement.ts'
import type { ReplicaRecord } from '../store/replicas.ts'
import type { ModelMemory } from './memory.pure.ts'
import {
  amountIn,
  chooseEviction,
  type Device,
  type Eviction,
  freeDisk,
  freeMemory,
  freeReplicaCount,
  type Memory,
  type MemoryByDevice,
  noMemory,
  type NodeRoom,
} from './room.pure.ts'

export interface PlacementModel {
  readonly name: ModelName
  readonly backend: string
  readonly selector: Selector | null
  readonly files: readonly ModelContent[]
  readonly memory: ModelMemory
  readonly priority: number
  /** Only the files are fetched; nothing is started. */
  readonly isStaging: boolean
  /** At most one replica per node. */
  readonly isSpread: boolean
  /** The node of the last failure: used only when no other is eligible. */
  readonly avoid: NodeId | null
  /** The only eligible node: the new replica replaces one there. */
  readonly pin: NodeId | null
  /** `warn`: a disk that looks too small excludes no node. */
  readonly diskCheck: 'refuse' | 'warn'
}
export type ModelContent = Readonly<{ digest: Digest | null; /** Null: unknown. */ size: number | null }>

export interface Candidate extends NodeRoom {
  readonly id: NodeId
  readonly name: string
  readonly nodeType: NodeType
  readonly status: NodeStatus
  readonly statusReason: string
  /** It joined or returned, and its first report or answer is due within seconds. */
  readonly isArriving: boolean
  /** Its worker supports `model.load`. */
  readonly runsModels: boolean
  readonly labels: Readonly<Record<string, string>>
  readonly hasBackend: boolean
  /** The operation of an install of the backend that is under way there. */
  readonly installId: OperationId | null
  /** Why the backend cannot be installed; null: it can, or unknown. */
  readonly unfit: string | null
  /** Download size of the backend; null: unknown. */
  readonly artifactSize: number | null
  readonly files: ReadonlySet<string>
  /** An administrator unloaded the model there. */
  readonly isUnloaded: boolean
  /** Where the model would compute. */
  readonly device: Device
  /** The usable GPUs, when the worker lists them. */
  readonly cards: readonly Card[]
}
/** A GPU. `id`: its UUID, or its number. */
export type Card = Readonly<{ id: string; name: string; total: number | null; available: number | null }>

/** Why a node is excluded. `memory` and `places` (the replica limit) can be freed by an eviction, the others cannot. */
export type Exclusion =
  | 'agent'
  | 'status'
  | 'old_worker'
  | 'pin'
  | 'selector'
  | 'unloaded'
  | 'spread'
  | 'unfit'
  | 'disk'
  | 'memory'
  | 'places'
  | 'per_model'

/** `isAwaited`: it is on its way, and nothing that is known about it excludes it. */
export type JudgedNode = PlacementNode &
  Readonly<{ hasBackend: boolean; installId: OperationId | null; excludedBy: Exclusion | null; isAwaited: boolean }>

export interface Placement {
  /** The best first, ineligible nodes last. */
  readonly nodes: readonly JudgedNode[]
  /** When no node is eligible: replicas of other models whose end would free enough room. */
  readonly eviction: Eviction | null
}

/** A node whose disk looks too small is used after all others, except the one of the last failure. */
const warned = 400

/** Among equal nodes the first one wins. */
export function choosePlacement(model: PlacementModel, candidates: readonly Candidate[]): Placement {
  const memory: MemoryByDevice = model.isStaging ? { cpu: noMemory, gpu: noMemory } : model.memory
  const criteria: Criteria = { memory, findUnselected: unselectedReasons(model.selector), text: cacheTexts() }
  // Grouped by score, so that thousands of nodes need no sorting.
  const eligible = new Map<number, JudgedNode[]>()
  const others: JudgedNode[] = []
  const full: Candidate[] = []
  for (const node of candidates) {
    const why = findExclusion(model, node, criteria)
    const warning = why === null && model.diskCheck === 'warn' ? findDiskProblem(model, node) : null
    const score = why === null ? scoreOf(model, node) - (warning === null ? 0 : warned) : 0
    const judged: JudgedNode = {
      node_id: node.id,
      node_name: node.name,
      eligible: why === null,
      reason: why === null ? '' : why.reason,
      score,
      ...(warning === null ? {} : { warning }),
      hasBackend: node.hasBackend,
      installId: node.installId,
      excludedBy: why === null ? null : why.by,
      isAwaited: why?.by === 'status' && node.isArriving && findLastingExclusion(model, node, criteria) === null,
    }
    if (why !== null) {
      others.push(judged)
      if (why.by === 'memory' || why.by === 'places') full.push(node)
      continue
    }
    const equals = eligible.get(score)
    if (equals === undefined) eligible.set(score, [judged])
    else equals.push(judged)
  }
  const scores = [...eligible.keys()].toSorted((a, b) => b - a)
  return {
    nodes: [...scores.flatMap((score) => eligible.get(score) ?? []), ...others],
    eviction: scores.length === 0 && full.length > 0 ? evict(model, { full, everywhere: candidates }) : null,
  }
}

function evict(model: PlacementModel, { full, everywhere }: Record<'full' | 'everywhere', readonly Candidate[]>) {
  const best = full.map((node) => ({ node, score: scoreOf(model, node) })).toSorted((a, b) => b.score - a.score)
  return chooseEviction(
    { name: model.name, priority: model.priority, memory: model.memory },
    best.map(({ node }) => node),
    everywhere,
  )
}

type ExclusionReason = Readonly<{ by: Exclusion; reason: string }>

type Criteria = Readonly<{
  memory: MemoryByDevice
  findUnselected: (labels: Candidate['labels']) => ExclusionReason | null
  text: (bytes: number) => string
}>

function findExclusion(model: PlacementModel, node: Candidate, criteria: Criteria): ExclusionReason | null {
  if (model.pin !== null && node.id !== model.pin) return { by: 'pin', reason: 'the replica replaces one on another node' }
  if (node.nodeType === 'agent') return { by: 'agent', reason: 'it is an agent node, which runs no models' }
  if (node.status !== 'healthy') return { by: 'status', reason: `it is ${node.status}: ${node.statusReason}` }
  return (
    findLastingExclusion(model, node, criteria) ??
    excludeByDisk(model, node) ??
    (model.isStaging ? null : (excludeByMemory(node, criteria) ?? excludeByReplicaLimit(node)))
  )
}

/** An exclusion that the first report of a node does not end. */
function findLastingExclusion(model: PlacementModel, node: Candidate, criteria: Criteria): ExclusionReason | null {
  if (!node.runsModels) return { by: 'old_worker', reason: 'its worker is too old to run models' }
  const unselected = criteria.findUnselected(node.labels)
  if (unselected !== null) return unselected
  // A prefetch on that node is pinned to it: an administrator requested the files there.
  if (node.isUnloaded && !(model.isStaging && model.pin !== null))
    return { by: 'unloaded', reason: 'unloaded on this node by an administrator' }
  // With a pin, the replica to be replaced still runs there.
  if (model.isSpread && model.pin === null && countOf(model, node) > 0)
    return { by: 'spread', reason: 'it has a replica of this model already' }
  if (!model.isStaging && model.pin === null && countOf(model, node) >= (node.maxReplicasPerModel ?? Infinity))
    return { by: 'per_model', reason: perModelReason(countOf(model, node), node.maxReplicasPerModel ?? 0) }
  if (!model.isStaging && !node.hasBackend && node.unfit !== null)
    return { by: 'unfit', reason: `backend ${model.backend} cannot be installed: ${node.unfit}` }
  return null
}

const perModelReason = (count: number, most: number): string =>
  `it runs ${count} ${count === 1 ? 'replica' : 'replicas'} of this model, and may run ${most} of each model (--max-replicas-per-model)`

/** Thousands of nodes share few reasons: each text is built once. */
function unselectedReasons(selector: Selector | null): Criteria['findUnselected'] {
  if (selector === null) return () => null
  const known = new Map<string, ExclusionReason>()
  return (labels) => {
    const key = findMismatchedLabel(selector, labels)
    if (key === null) return null
    const label = Object.hasOwn(labels, key) ? labels[key] : undefined
    const about = label === undefined ? key : `${key}=${label}`
    const cached = known.get(about)
    if (cached !== undefined) return cached
    const has = label === undefined ? `it has no label ${key}` : `its label ${key} is ${JSON.stringify(label)}`
    const why: ExclusionReason = { by: 'selector', reason: `${has}, and the node selector requires ${JSON.stringify(selector[key])}` }
    known.set(about, why)
    return why
  }
}

function cacheTexts(): Criteria['text'] {
  const known = new Map<number, string>()
  return (bytes) => {
    const cached = known.get(bytes)
    if (cached !== undefined) return cached
    const text = formatBytes(bytes)
    known.set(bytes, text)
    return text
  }
}

function excludeByDisk(model: PlacementModel, node: Candidate): ExclusionReason | null {
  const reason = model.diskCheck === 'warn' ? null : findDiskProblem(model, node)
  return reason === null ? null : { by: 'disk', reason }
}

function findDiskProblem({ files, isStaging, backend }: PlacementModel, node: Candidate): string | null {
  const free = freeDisk(node)
  if (free === Infinity) return null
  const ofFiles = files.reduce((sum, { digest, size }) => sum + (digest !== null && node.files.has(digest) ? 0 : (size ?? 0)), 0)
  // An install that is under way checks the disk for itself.
  const ofBackend = isStaging || node.hasBackend || node.installId !== null ? 0 : (node.artifactSize ?? 0)
  // Nothing to fetch fits on a full disk.
  if (ofFiles + ofBackend === 0 || ofFiles + ofBackend <= free) return null
  const what = ofBackend === 0 ? 'its files need' : `its files and the backend ${backend} need`
  const awaited = node.awaitedDisk === 0 ? '' : `, when ${formatBytes(node.awaitedDisk)} are kept for replicas that are starting there`
  return `${what} ${formatBytes(ofFiles + ofBackend)} on disk, and ${formatBytes(free)} are free${awaited}`
}

function excludeByMemory(node: Candidate, { memory, text }: Criteria): ExclusionReason | null {
  const need = memory[node.device]
  return excludeByPool(node, 'vram', need, text) ?? excludeByPool(node, 'ram', need, text)
}

function excludeByPool(node: Candidate, pool: keyof Memory, need: Memory, text: Criteria['text']): ExclusionReason | null {
  const amount = amountIn(node, pool, need)
  if (amount === 0) return null
  const free = freeMemory(node, pool)
  if (amount <= free) return null
  const { total } = node[pool]
  const needs = `it needs about ${text(amount)} of ${pool === 'vram' ? 'GPU memory' : 'memory'}`
  const has = total === null || amount > total ? `the node has ${text(total ?? 0)}` : `${text(free)} of ${text(total)} are free`
  return { by: 'memory', reason: `${needs}, and ${has}` }
}

/**
 * The card with the least room that holds all of a replica's GPU memory, by its bookings and its report; null: none, or the cards
 * are unknown. It is recorded with the replica, so that the next one counts it.
 */
export function chooseCard(node: Pick<Candidate, 'cards' | 'replicas'>, { vram }: Memory): string | null {
  if (vram === 0) return null
  let best: Readonly<{ id: string; free: number }> | null = null
  for (const { id, total, available } of node.cards) {
    if (total === null) continue
    const on = node.replicas.filter(({ card }) => card === id)
    const booked = on.reduce((sum, { need }) => sum + need.vram, 0)
    const missing = on.reduce((sum, { need, isReported }) => sum + (isReported ? 0 : need.vram), 0)
    const free = Math.min(total - booked, (available ?? total) - missing)
    if (vram <= free && (best === null || free < best.free)) best = { id, free }
  }
  return best?.id ?? null
}

function excludeByReplicaLimit(node: Candidate): ExclusionReason | null {
  if (freeReplicaCount(node) > 0) return null
  return { by: 'places', reason: `it runs ${node.replicas.length} replicas, and may run ${node.maxReplicas ?? 0} (--max-replicas)` }
}

/** Replicas of the current revision: those of older ones are going to end. */
const countOf = ({ name }: PlacementModel, { replicas }: Candidate): number =>
  replicas.reduce((count, { model, state, isCurrent }) => count + Number(model === name && isCurrent && state !== 'draining'), 0)

/**
 * In order of weight: not where it just failed, not where a replica runs, where the backend is or is being installed, where the
 * files are, where few replicas run.
 */
function scoreOf(model: PlacementModel, node: Candidate): number {
  const { files, avoid, isStaging } = model
  const there = files.reduce((count, { digest }) => count + Number(digest !== null && node.files.has(digest)), 0)
  const ofFiles = files.length === 0 ? 0 : Math.floor((50 * there) / files.length)
  const free = isStaging && node.availableDisk !== null ? Math.min(40, Math.log2(node.availableDisk + 1)) : 0
  return (
    1_000 +
    (node.hasBackend ? 100 : node.installId === null ? 0 : 60) +
    ofFiles +
    Math.floor(free) -
    Math.min(40, node.replicas.length) -
    Math.min(300, 200 * countOf(model, node)) -
    (node.id === avoid ? 500 : 0)
  )
}

/** A node that has changed since, for example because it came back, moves nothing: it may leave again. */
const calmMs = 60_000
/** A model that did not start on a node is not moved there for this long. */
const failedWithinMs = 600_000

/** The best node without a replica of the model that has its backend and room, and has been calm for a while; null: none. */
export function chooseSpread({ nodes }: Placement, facts: ReadonlyMap<NodeId, SpreadFacts>): NodeId | null {
  const isSuitable = ({ node_id: id, eligible, hasBackend }: JudgedNode): boolean => {
    const about = facts.get(id)
    if (!eligible || !hasBackend || about === undefined || about.hasReplica) return false
    return about.calmMs >= calmMs && (about.failedMs === null || about.failedMs >= failedWithinMs)
  }
  return nodes.find(isSuitable)?.node_id ?? null
}

/** One sentence with the reasons of the first nodes. */
export function explainNoNode({ name }: Pick<PlacementModel, 'name'>, { nodes }: Placement): string {
  if (nodes.length === 0) return `no node can run ${name}: there is none yet; let one join`
  // With a pin, only its node counts.
  const pinned = nodes.filter(({ excludedBy }) => excludedBy !== 'pin')
  const judged = pinned.length === 0 ? nodes : pinned
  const reasons = judged.slice(0, maxReasons).map((node) => `${node.node_name}: ${node.reason}`)
  const more = judged.length > maxReasons ? `; and ${judged.length - maxReasons} more` : ''
  return `no node can run ${name}: ${reasons.join('; ')}${more}`.slice(0, 4_096)
}
const maxReasons = 8

type ViewedModel = Readonly<{ memory: ModelMemory; candidates: readonly Candidate[] }>

/** The placement preview of the API. */
export function viewPlacement(
  { nodes, eviction }: Placement,
  { memory, candidates }: ViewedModel,
  victims: readonly Pick<ReplicaRecord, 'id' | 'model'>[],
): PlacementView {
  const modelOf = new Map(victims.map(({ id, model }) => [id, model]))
  const roomOf = new Map(candidates.map((node) => [node.id, viewMemory(node, memory)]))
  return {
    memory: { basis: memory.basis, parts: partsOf(memory) },
    nodes: nodes.map(({ node_id, node_name, eligible, reason, score, warning, excludedBy }) => ({
      ...{ node_id, node_name, eligible, reason, score },
      ...(warning === undefined ? {} : { warning }),
      excluded_by: excludedBy,
      ...(roomOf.has(node_id) ? { memory: roomOf.get(node_id) } : {}),
    })),
    eviction:
      eviction === null
        ? null
        : {
            node_id: eviction.nodeId,
            node_name: nodes.find(({ node_id: id }) => id === eviction.nodeId)?.node_name ?? '',
            replicas: eviction.victims.flatMap((id) => {
              const model = modelOf.get(id)
              return model === undefined ? [] : [{ id, model }]
            }),
          },
  }
}

function partsOf({ estimate }: ModelMemory): MemoryParts | null {
  if (estimate === null) return null
  const { weights, kvCache: cache, compute, mmproj, process, total, perLayer: per_layer, layers } = estimate
  return { weights, cache, compute, mmproj, process, total, per_layer, layers }
}

function viewMemory(node: Candidate, memory: MemoryByDevice): NodeMemory {
  const { device } = node
  const need = memory[device]
  const card = chooseCard(node, need)
  const free = (pool: keyof Memory): number | null => (node[pool].total === null ? null : Math.max(0, freeMemory(node, pool)))
  return {
    ...{ device, ...need, free_ram: free('ram'), free_vram: free('vram') },
    card: card === null ? null : { id: card, name: node.cards.find(({ id }) => id === card)?.name ?? '' },
  }
}

export const viewNowhere = (nodes: readonly Pick<NodeRecord, 'id' | 'name'>[], { message }: Failure): PlacementView => ({
  nodes: nodes.map(({ id, name }) => ({ node_id: id, node_name: name, eligible: false, reason: message, score: 0, excluded_by: 'unfit' })),
  eviction: null,
})
