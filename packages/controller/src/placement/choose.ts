// Which node gets a replica, and what speaks against the others. Pure.
import {
  formatBytes,
  findMismatchedLabel,
  type Digest,
  type ModelName,
  type NodeId,
  type NodeStatus,
  type NodeType,
  type PlacementNode,
  type Selector,
} from '@muster/protocol'

import { chooseEviction, type Eviction } from './evict.ts'
import { freeDisk, freeMemory, freePlaces, needOf, type NodeRoom } from './room.ts'

export interface PlacementModel {
  readonly name: ModelName
  readonly backend: string
  readonly selector: Selector | null
  readonly files: readonly ModelContent[]
  readonly priority: number
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

export interface Candidate extends NodeRoom {
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
  /** What is fetched when the backend is installed there; null: nobody knows. */
  readonly artifactSize: number | null
  readonly files: ReadonlySet<string>
}

/** What excludes a node, for those who count or act on it. Memory and places can be made free, the rest can not. */
export type Exclusion = 'agent' | 'status' | 'old_worker' | 'pin' | 'selector' | 'spread' | 'unfit' | 'disk' | 'memory' | 'places'

export type JudgedNode = PlacementNode & Readonly<{ hasBackend: boolean; excludedBy: Exclusion | null }>

export interface Placement {
  /** The best first; those that are not eligible come last. */
  readonly nodes: readonly JudgedNode[]
  /** When no node is eligible: replicas of others whose end would make room. */
  readonly eviction: Eviction | null
}

/** Of nodes that are equally good the one that comes first is taken. */
export function choosePlacement(model: PlacementModel, candidates: readonly Candidate[]): Placement {
  const need = model.isStaging ? 0 : needOf(model.files.map(({ size }) => size))
  const [whyUnselected, text] = [unselectedReasons(model.selector), rememberTexts()]
  // By score, so that thousands of nodes need no sorting.
  const eligible = new Map<number, JudgedNode[]>()
  const others: JudgedNode[] = []
  const full: Candidate[] = []
  for (const node of candidates) {
    const why = whyNot(model, node, { need, whyUnselected, text })
    const score = why === null ? scoreOf(model, node) : 0
    const judged: JudgedNode = {
      node_id: node.id,
      node_name: node.name,
      eligible: why === null,
      reason: why === null ? '' : why.reason,
      score,
      hasBackend: node.hasBackend,
      excludedBy: why === null ? null : why.by,
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
    eviction: scores.length === 0 && full.length > 0 ? evict(model, need, { full, everywhere: candidates }) : null,
  }
}

function evict(model: PlacementModel, need: number, { full, everywhere }: Record<'full' | 'everywhere', readonly Candidate[]>) {
  const best = full.map((node) => ({ node, score: scoreOf(model, node) })).toSorted((a, b) => b.score - a.score)
  return chooseEviction(
    { name: model.name, priority: model.priority, need },
    best.map(({ node }) => node),
    everywhere,
  )
}

type Why = Readonly<{ by: Exclusion; reason: string }>

type Asked = Readonly<{ need: number; whyUnselected: (labels: Candidate['labels']) => Why | null; text: (bytes: number) => string }>

function whyNot(model: PlacementModel, node: Candidate, asked: Asked): Why | null {
  if (model.pin !== null && node.id !== model.pin) return { by: 'pin', reason: 'it takes the place of a replica on another node' }
  if (node.nodeType === 'agent') return { by: 'agent', reason: 'it is an agent node, which runs no models' }
  if (node.status !== 'healthy') return { by: 'status', reason: `it is ${node.status}: ${node.statusReason}` }
  if (!node.runsModels) return { by: 'old_worker', reason: 'its worker is too old to run models' }
  const unselected = asked.whyUnselected(node.labels)
  if (unselected !== null) return unselected
  // What it replaces is there, and goes when it is up.
  if (model.isSpread && model.pin === null && countOf(model, node) > 0)
    return { by: 'spread', reason: 'it has a replica of this model already' }
  if (!model.isStaging && !node.hasBackend && node.unfit !== null)
    return { by: 'unfit', reason: `backend ${model.backend} can not be installed: ${node.unfit}` }
  return whyNoDisk(model, node) ?? (model.isStaging ? null : (whyNoMemory(node, asked) ?? whyNoPlace(node)))
}

/** Thousands of nodes have few reasons: each is put into words once. */
function unselectedReasons(selector: Selector | null): Asked['whyUnselected'] {
  if (selector === null) return () => null
  const known = new Map<string, Why>()
  return (labels) => {
    const key = findMismatchedLabel(selector, labels)
    if (key === null) return null
    const label = Object.hasOwn(labels, key) ? labels[key] : undefined
    const about = label === undefined ? key : `${key}=${label}`
    const before = known.get(about)
    if (before !== undefined) return before
    const has = label === undefined ? `it has no label ${key}` : `its label ${key} is ${JSON.stringify(label)}`
    const why: Why = { by: 'selector', reason: `${has}, and the node selector asks for ${JSON.stringify(selector[key])}` }
    known.set(about, why)
    return why
  }
}

function rememberTexts(): Asked['text'] {
  const known = new Map<number, string>()
  return (bytes) => {
    const before = known.get(bytes)
    if (before !== undefined) return before
    const text = formatBytes(bytes)
    known.set(bytes, text)
    return text
  }
}

function whyNoDisk({ files, isStaging, backend }: PlacementModel, node: Candidate): Why | null {
  const free = freeDisk(node)
  if (free === Infinity) return null
  const ofFiles = files.reduce((sum, { digest, size }) => sum + (digest !== null && node.files.has(digest) ? 0 : (size ?? 0)), 0)
  const ofBackend = isStaging || node.hasBackend ? 0 : (node.artifactSize ?? 0)
  // Nothing to fetch needs no disk, however full it is.
  if (ofFiles + ofBackend === 0 || ofFiles + ofBackend <= free) return null
  const what = ofBackend === 0 ? 'its files need' : `its files and the backend ${backend} need`
  const awaited = node.awaitedDisk === 0 ? '' : `, when ${formatBytes(node.awaitedDisk)} are kept for replicas that are starting there`
  return { by: 'disk', reason: `${what} ${formatBytes(ofFiles + ofBackend)} on disk, and ${formatBytes(free)} are free${awaited}` }
}

function whyNoMemory(node: Candidate, { need, text }: Asked): Why | null {
  if (need === 0) return null
  const free = freeMemory(node)
  if (need <= free) return null
  const { kind, total } = node.pool
  const asked = `it needs about ${text(need)} of ${kind === 'vram' ? 'GPU memory' : 'memory'}`
  const has = total === null || need > total ? `the node has ${text(total ?? 0)}` : `${text(free)} of ${text(total)} are free`
  return { by: 'memory', reason: `${asked}, and ${has}` }
}

function whyNoPlace(node: Candidate): Why | null {
  if (freePlaces(node) > 0) return null
  return { by: 'places', reason: `it runs ${node.replicas.length} replicas, and may run ${node.maxReplicas ?? 0} (--max-replicas)` }
}

/** Of the revision it is about: those of an old one go. */
const countOf = ({ name }: PlacementModel, { replicas }: Candidate): number =>
  replicas.reduce((count, { model, state, isCurrent }) => count + Number(model === name && isCurrent && state !== 'draining'), 0)

// In this order: not where it just failed, not where one runs already, where the backend is, where its files are, where
// little runs.
function scoreOf(model: PlacementModel, node: Candidate): number {
  const { files, avoid, isStaging } = model
  const there = files.reduce((count, { digest }) => count + Number(digest !== null && node.files.has(digest)), 0)
  const ofFiles = files.length === 0 ? 0 : Math.floor((50 * there) / files.length)
  const free = isStaging && node.availableDisk !== null ? Math.min(40, Math.log2(node.availableDisk + 1)) : 0
  return (
    1_000 +
    (node.hasBackend ? 100 : 0) +
    ofFiles +
    Math.floor(free) -
    Math.min(40, node.replicas.length) -
    Math.min(300, 200 * countOf(model, node)) -
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
