// Which node gets a replica, and what speaks against the others. Pure.
import {
  unselectedBy,
  type Digest,
  type ModelName,
  type NodeId,
  type NodeStatus,
  type NodeType,
  type PlacementNode,
  type ReplicaId,
  type Selector,
} from '@muster/protocol'

export interface PlacementModel {
  readonly name: ModelName
  readonly backend: string
  readonly selector: Selector | null
  readonly files: readonly ModelContent[]
  /** Nothing is started there: only its files are fetched. */
  readonly isStaging: boolean
  /** One on each node, and no second. */
  readonly isSpread: boolean
  /** Where it failed the last time: taken only when there is no other. */
  readonly avoid: NodeId | null
  /** The only node that will do: it takes the place of a replica there. */
  readonly pin: NodeId | null
}
export type ModelContent = Readonly<{ digest: Digest | null; /** Null: nobody knows. */ size: number | null }>

export interface Candidate {
  readonly id: NodeId
  readonly name: string
  readonly nodeType: NodeType
  readonly status: NodeStatus
  readonly statusReason: string
  /** Its worker takes `model.load`. */
  readonly runsModels: boolean
  readonly labels: Readonly<Record<string, string>>
  readonly hasBackend: boolean
  /** Why the backend can't be installed there; null: it can, or nobody knows. */
  readonly unfit: string | null
  readonly files: ReadonlySet<string>
  readonly availableDisk: number | null
  readonly totalRam: number | null
  readonly totalVram: number | null
  /** Processes of all models. */
  readonly replicas: number
  readonly replicasOfModel: number
}

/** What excludes a node, for those who count or act on it. Memory and places can be made free, the rest can not. */
export type Exclusion = 'agent' | 'status' | 'old_worker' | 'pin' | 'selector' | 'spread' | 'unfit' | 'disk' | 'memory' | 'places'

export type JudgedNode = PlacementNode & Readonly<{ hasBackend: boolean; excludedBy: Exclusion | null }>

export interface Placement {
  /** The best first; those that are not eligible come last. */
  readonly nodes: readonly JudgedNode[]
  /** When no node is eligible: replicas of others whose end would make room, all on one node. */
  readonly eviction: Readonly<{ nodeId: NodeId; victims: readonly ReplicaId[] }> | null
}

export function choosePlacement(model: PlacementModel, candidates: readonly Candidate[]): Placement {
  const judged = candidates.map((node) => {
    const why = whyNot(model, node)
    return {
      node_id: node.id,
      node_name: node.name,
      eligible: why === null,
      reason: why?.reason ?? '',
      score: why === null ? scoreOf(model, node) : 0,
      hasBackend: node.hasBackend,
      excludedBy: why?.by ?? null,
    }
  })
  const order = (node: (typeof judged)[number]): number => (node.eligible ? node.score : -Infinity)
  return {
    nodes: judged.toSorted((a, b) => compare(order(b), order(a)) || compare(a.node_name, b.node_name) || compare(a.node_id, b.node_id)),
    eviction: null,
  }
}

const compare = <T extends string | number>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

type Why = Readonly<{ by: Exclusion; reason: string }>

function whyNot(model: PlacementModel, node: Candidate): Why | null {
  if (model.pin !== null && node.id !== model.pin) return { by: 'pin', reason: 'it takes the place of a replica on another node' }
  if (node.nodeType === 'agent') return { by: 'agent', reason: 'it is an agent node, which runs no models' }
  if (node.status !== 'healthy') return { by: 'status', reason: `it is ${node.status}: ${node.statusReason}` }
  if (!node.runsModels) return { by: 'old_worker', reason: 'its worker is too old to run models' }
  const unselected = model.selector === null ? null : whyUnselected(model.selector, node.labels)
  if (unselected !== null) return { by: 'selector', reason: unselected }
  if (model.isSpread && model.pin === null && node.replicasOfModel > 0)
    return { by: 'spread', reason: 'it has a replica of this model already' }
  if (!model.isStaging && !node.hasBackend && node.unfit !== null)
    return { by: 'unfit', reason: `backend ${model.backend} can not be installed: ${node.unfit}` }
  return whyTooSmall(model, node)
}

function whyUnselected(selector: Selector, labels: Candidate['labels']): string | null {
  const key = unselectedBy(selector, labels)
  if (key === null) return null
  const label = labels[key] === undefined ? `it has no label ${key}` : `its label ${key} is ${JSON.stringify(labels[key])}`
  return `${label}, and the node selector asks for ${JSON.stringify(selector[key])}`
}

function whyTooSmall({ files, isStaging }: PlacementModel, node: Candidate): Why | null {
  const missing = sumOf(files.filter(({ digest }) => digest === null || !node.files.has(digest)))
  if (node.availableDisk !== null && missing > node.availableDisk)
    return { by: 'disk', reason: `its files need ${missing} bytes on disk, and ${node.availableDisk} are free` }
  if (isStaging) return null
  const memory = Math.max(node.totalRam ?? 0, node.totalVram ?? 0)
  const total = sumOf(files)
  return memory > 0 && total > memory
    ? { by: 'memory', reason: `its files are ${total} bytes, and the node has ${memory} bytes of memory` }
    : null
}

/** Of what is known; the rest may be small. */
const sumOf = (files: readonly ModelContent[]): number => files.reduce((sum, { size }) => sum + (size ?? 0), 0)

// In this order: not where it just failed, not where one runs already, where the backend is, where its files are, where
// little runs.
function scoreOf({ files, avoid, isStaging }: PlacementModel, node: Candidate): number {
  const there = files.filter(({ digest }) => digest !== null && node.files.has(digest)).length
  const ofFiles = files.length === 0 ? 0 : Math.floor((50 * there) / files.length)
  const free = isStaging && node.availableDisk !== null ? Math.min(40, Math.log2(node.availableDisk + 1)) : 0
  return (
    1_000 +
    (node.hasBackend ? 100 : 0) +
    ofFiles +
    Math.floor(free) -
    Math.min(40, node.replicas) -
    Math.min(300, 200 * node.replicasOfModel) -
    (node.id === avoid ? 500 : 0)
  )
}

/** Why there is no node for it, in one sentence. */
export function whyNowhere({ name }: Pick<PlacementModel, 'name'>, { nodes }: Placement): string {
  if (nodes.length === 0) return `no node can run ${name}: there is none yet; let one join`
  const told = nodes.slice(0, mostTold).map((node) => `${node.node_name}: ${node.reason}`)
  const more = nodes.length > mostTold ? `; and ${nodes.length - mostTold} more` : ''
  return `no node can run ${name}: ${told.join('; ')}${more}`.slice(0, 4_096)
}
const mostTold = 8
