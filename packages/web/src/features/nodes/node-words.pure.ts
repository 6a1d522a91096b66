// Texts about nodes: status, sentences, resources, filters, and the effects of draining and removing.
import {
  formatBytes,
  formatBytesOf,
  formatDuration,
  type NodeStatus,
  type NodeView,
  type ReplicaView,
  type Resources,
} from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { listNames, parseTime, plural, searchFor } from '../../format.ts'

type NodeSummary = Pick<NodeView, 'name' | 'status' | 'status_reason' | 'liveness' | 'last_seen_at' | 'models'>

export const statusTone: Readonly<Record<NodeStatus, Tone>> = {
  healthy: 'good',
  draining: 'wait',
  pending: 'wait',
  unhealthy: 'bad',
  offline: 'idle',
}
export const statusSign: Readonly<Record<NodeStatus, string>> = {
  healthy: '●',
  draining: '◐',
  pending: '?',
  unhealthy: '▲',
  offline: '○',
}

type NodeMark = Readonly<{ tone: Tone; sign: string; word: string }>

/** A node that was just approved is on its way, which is no problem: its first report is due within seconds. */
export const isArriving = ({ status, liveness }: Pick<NodeView, 'status' | 'liveness'>): boolean =>
  status === 'unhealthy' && liveness === 'new'
/** It is drained, and none of its replicas is left. */
const isDrained = ({ status, models }: Pick<NodeView, 'status' | 'models'>): boolean => status === 'draining' && models.length === 0

export function nodeMark(node: Pick<NodeView, 'status' | 'liveness' | 'models'>): NodeMark {
  const { status } = node
  if (isArriving(node)) return { tone: 'wait', sign: '◔', word: 'approved' }
  if (isDrained(node)) return { tone: 'idle', sign: '◐', word: 'drained' }
  return { tone: statusTone[status], sign: statusSign[status], word: status }
}

const worstFirst: readonly NodeStatus[] = ['unhealthy', 'offline', 'pending', 'draining', 'healthy']

/** Reasons for silence; the page shows the time of the last heartbeat as an age. */
const silenceReason: Readonly<Partial<Record<NonNullable<NodeView['liveness']>, string>>> = {
  left: 'the worker was stopped',
  gone: 'silent for longer than the offline limit',
  silent: 'no heartbeat for longer than the node timeout',
}

export function reasonOf(node: Pick<NodeView, 'status' | 'liveness' | 'status_reason' | 'models'>): string {
  if (isArriving(node)) return 'waiting for its first report'
  if (isDrained(node)) return 'runs no models, safe to switch off'
  return (node.liveness === undefined ? undefined : silenceReason[node.liveness]) ?? node.status_reason
}

/** The last heartbeat of a node that stopped sending them; null when it is unhealthy for another reason. */
export const silentSince = ({ status, liveness = 'present', last_seen_at }: NodeSummary): string | null =>
  (status === 'unhealthy' || status === 'offline') && liveness in silenceReason ? last_seen_at : null

/** `5 nodes, 4 healthy. gpu-3 has sent no heartbeat for 2m.` */
export function describeNodes(nodes: readonly NodeSummary[], now: number): string {
  if (nodes.length === 0) return 'No nodes yet.'
  const healthy = nodes.filter(({ status }) => status === 'healthy').length
  const count = `${plural(nodes.length, 'node')}, ${healthy === nodes.length ? (healthy === 1 ? 'healthy' : 'all healthy') : `${healthy} healthy`}.`
  const groups = worstFirst.flatMap((status) => {
    if (status === 'healthy') return []
    const [special, others] = partition(nodes.filter((node) => node.status === status))
    return [others, special].filter((group) => group.length > 0).map((group) => describeGroup(group, now))
  })
  return [count, ...groups].join(' ')
}

/** Nodes that only wait, for their first report or to be switched off, and the others. */
function partition(nodes: readonly NodeSummary[]): [NodeSummary[], NodeSummary[]] {
  const isSpecial = (node: NodeSummary): boolean => isArriving(node) || isDrained(node)
  return [nodes.filter(isSpecial), nodes.filter((node) => !isSpecial(node))]
}

function describeGroup(nodes: readonly NodeSummary[], now: number): string {
  const [first] = nodes
  if (first === undefined) return ''
  const names = listNames(nodes.map(({ name }) => shortName(name)))
  const isOne = nodes.length === 1
  const be = isOne ? 'is' : 'are'
  if (isArriving(first)) return `${names} ${be} approved and ${isOne ? 'has' : 'have'} not reported yet.`
  if (isDrained(first)) return `${names} ${be} drained and safe to switch off.`
  switch (first.status) {
    case 'unhealthy':
      return isOne ? `${shortName(first.name)} ${describeTrouble(first, now)}.` : `${names} are unhealthy.`
    case 'offline':
      return isOne && first.last_seen_at !== null
        ? `${names} is offline, last seen ${formatDuration(now - parseTime(first.last_seen_at))} ago.`
        : `${names} ${be} offline.`
    case 'pending':
      return `${names} ${be} waiting for approval.`
    case 'draining':
      return `${names} ${be} draining.`
    case 'healthy':
      return ''
    default:
      return first.status satisfies never
  }
}

function describeTrouble(node: NodeSummary, now: number): string {
  const since = silentSince(node)
  return since === null ? `is unhealthy: ${reasonOf(node)}` : `has sent no heartbeat for ${formatDuration(now - parseTime(since))}`
}

const shortName = (name: string): string => (name.length > 40 ? `${name.slice(0, 39)}…` : name)

export function describeNode(node: NodeView, now: number): string {
  const since = silentSince(node)
  const replicas = node.models.length === 0 ? 'runs no models' : `runs ${listNames(countNames(node.models).map(formatNameCount))}`
  const pending = node.pending_ops === 0 ? '' : ` ${plural(node.pending_ops, 'pending operation')}.`
  if (node.status === 'pending') return 'Waiting for approval. It gets no work until an administrator approves it.'
  if (isArriving(node)) return `Approved. It gets work after its first report, which is due within seconds.${pending}`
  if (isDrained(node)) return `Drained: it runs no models, gets no new work and is safe to switch off.${pending}`
  if (since !== null)
    return `${capital(node.status)}: ${reasonOf(node)}; last seen ${formatDuration(now - parseTime(since))} ago.${pending}`
  if (node.status === 'healthy') {
    if (node.node_type === 'agent') return 'Healthy. Agents run no models.'
    return `Healthy, ${replicas}${node.in_flight > 0 ? `, ${plural(node.in_flight, 'request')} in flight` : ''}.${pending}`
  }
  return `${capital(node.status)}: ${node.status_reason}.${node.status === 'draining' ? ` It still ${replicas}.` : ''}${pending}`
}

export interface NameCount {
  readonly name: string
  readonly count: number
}
/** Each name once, sorted. */
export function countNames(names: readonly string[]): NameCount[] {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].map(([name, count]) => ({ name, count })).toSorted((a, b) => (a.name < b.name ? -1 : 1))
}
const formatNameCount = ({ name, count }: NameCount): string => (count === 1 ? name : `${name} ×${count}`)

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

type AffectedNode = Pick<NodeView, 'name' | 'status' | 'node_type' | 'pending_ops'>

const listReplicas = (replicas: readonly ReplicaView[]): string =>
  listNames(countNames(replicas.map(({ model }) => model)).map(formatNameCount), 8)
/** Exited replicas are listed for a while. */
const live = (replicas: readonly ReplicaView[]): ReplicaView[] => replicas.filter(({ state }) => state !== 'exited')

export function drainEffects(node: AffectedNode, replicas: readonly ReplicaView[]): string[] {
  const here = live(replicas)
  return [
    'It gets no new work until it is resumed, also after restarts.',
    here.length === 0
      ? 'No replicas to move.'
      : `${plural(here.length, 'replica')} (${listReplicas(here)}) ${here.length === 1 ? 'moves' : 'move'} to other nodes; each keeps serving until its replacement is ready. A replica that fits nowhere else stays.`,
    node.pending_ops === 0
      ? 'No pending operations; new ones wait until the node is resumed.'
      : `${plural(node.pending_ops, 'pending operation')} ${node.pending_ops === 1 ? 'waits' : 'wait'} until the node is resumed; work in progress continues.`,
  ]
}

export function removalEffects(node: AffectedNode, replicas: readonly ReplicaView[]): string[] {
  const here = live(replicas)
  return [
    here.length === 0
      ? 'No replicas to stop.'
      : `${plural(here.length, 'replica')} (${listReplicas(here)}) ${here.length === 1 ? 'stops' : 'stop'} at once. Their models start on other nodes if there is room. To finish requests first, drain the node instead.`,
    node.pending_ops === 0
      ? 'No pending operations.'
      : `${plural(node.pending_ops, 'pending operation is', 'pending operations are')} cancelled (“node removed”).`,
    'Its key, labels and budget are deleted. Backends and model files stay on its disk.',
    'Its worker exits, unless it was started with a join token that is still valid: then it returns as a new node that needs approval.',
  ]
}

interface MemoryUse {
  readonly kind: 'VRAM' | 'RAM'
  readonly percent: number
  /** `61 of 80 GB`. */
  readonly text: string
}

/** Use of the memory that models are placed by: VRAM, or RAM without a GPU. Null when the node does not report it. */
export function memoryOf({ total_vram, available_vram, total_ram, available_ram }: Resources): MemoryUse | null {
  if (total_vram !== null && total_vram > 0) return memoryUse('VRAM', total_vram, available_vram)
  return total_ram === null ? null : memoryUse('RAM', total_ram, available_ram)
}

function memoryUse(kind: MemoryUse['kind'], total: number, available: number | null): MemoryUse | null {
  if (available === null || total === 0) return null
  const used = Math.max(0, total - available)
  return { kind, percent: (used / total) * 100, text: formatBytesOf(used, total) }
}

/** `16 CPUs · 64 GB RAM · 812 GB disk free`, with line breaks only between the parts. */
export function describeMachine({ resources }: Pick<NodeView, 'resources'>): string {
  const { cpus, total_ram: ram, available_disk: disk } = resources
  return [
    cpus === null ? null : plural(cpus, 'CPU'),
    ram === null ? null : `${formatBytes(ram)} RAM`,
    disk === null ? null : `${formatBytes(disk)} disk free`,
  ]
    .filter((part) => part !== null)
    .map((part) => part.replaceAll(' ', '\u00a0'))
    .join(' · ')
}

export interface NodeFilter {
  readonly q?: string | undefined
  readonly type?: string | undefined
  readonly state?: string | undefined
  /** `key` or `key=value`. */
  readonly label?: string | undefined
}

export function filterNodes(nodes: readonly NodeView[], { q = '', type, state, label }: NodeFilter): readonly NodeView[] {
  const isFound = searchFor(q)
  return nodes.filter(
    (node) =>
      (type === undefined || node.node_type === type) &&
      (state === undefined || node.status === state) &&
      (label === undefined || hasLabel(node, label)) &&
      isFound(node.name, node.id, ...Object.entries(node.labels).map(([key, value]) => `${key}=${value}`)),
  )
}

export const isFiltered = (filter: NodeFilter): boolean =>
  [filter.q, filter.type, filter.state, filter.label].some((value) => value !== undefined && value !== '')

/** `label` is KEY or KEY=VALUE; only values may contain `=`. */
function hasLabel({ labels }: NodeView, label: string): boolean {
  const split = label.indexOf('=')
  return split < 0 ? Object.hasOwn(labels, label) : labels[label.slice(0, split)] === label.slice(split + 1)
}

/** Keys with more values are offered without them. */
const maxValues = 20

export function labelChoices(nodes: readonly NodeView[]): string[] {
  const values = new Map<string, Set<string>>()
  for (const { labels } of nodes)
    for (const [key, value] of Object.entries(labels)) values.set(key, (values.get(key) ?? new Set()).add(value))
  values.delete('node.name')
  return [...values]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, all]) => [key, ...(all.size > maxValues ? [] : [...all].toSorted().map((value) => `${key}=${value}`))])
}
