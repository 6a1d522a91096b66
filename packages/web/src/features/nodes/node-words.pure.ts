// What is said of nodes, in words. Pure.
import type { NodeStatus, NodeView, ReplicaView, Resources } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { formatBytes, formatBytesOf, formatDuration, listNames, plural } from '../../format.ts'

type Told = Pick<NodeView, 'name' | 'status' | 'status_reason' | 'last_seen_at'>

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
const worstFirst: readonly NodeStatus[] = ['unhealthy', 'offline', 'pending', 'draining', 'healthy']

/** The reason without its time, which is said better as an age. */
export const reasonOf = ({ status_reason }: Pick<NodeView, 'status_reason'>): string => status_reason.split('; ')[0] ?? ''

/** Since when nothing was heard; null: silence is not what is wrong with it. */
export const silentSince = ({ status, status_reason, last_seen_at }: Told): string | null =>
  (status === 'unhealthy' || status === 'offline') && status_reason.includes('; ') ? last_seen_at : null

/** `5 nodes, 4 healthy. gpu-3 has been silent for 2 min.` The worst is named, what is like it is counted. */
export function sayFleet(nodes: readonly Told[], now: number): string {
  if (nodes.length === 0) return 'No nodes yet.'
  const healthy = nodes.filter(({ status }) => status === 'healthy').length
  const count = `${plural(nodes.length, 'node')}, ${healthy === nodes.length ? (healthy === 1 ? 'healthy' : 'all healthy') : `${healthy} healthy`}.`
  const said = worstFirst.flatMap((status) => {
    const those = nodes.filter((node) => node.status === status)
    return those.length === 0 || status === 'healthy' ? [] : [sayThose(those, now)]
  })
  return [count, ...said].join(' ')
}

function sayThose(nodes: readonly Told[], now: number): string {
  const [first] = nodes
  if (first === undefined) return ''
  const names = listNames(nodes.map(({ name }) => shortName(name)))
  const isOne = nodes.length === 1
  switch (first.status) {
    case 'unhealthy':
      return isOne ? `${shortName(first.name)} ${sayTrouble(first, now)}.` : `${names} are unhealthy.`
    case 'offline':
      return isOne && first.last_seen_at !== null
        ? `${names} is offline, last heard ${formatDuration(now - Date.parse(first.last_seen_at))} ago.`
        : `${names} ${isOne ? 'is' : 'are'} offline.`
    case 'pending':
      return `${names} ${isOne ? 'waits' : 'wait'} for approval.`
    case 'draining':
      return `${names} ${isOne ? 'is' : 'are'} draining.`
    case 'healthy':
      return ''
    default:
      return first.status satisfies never
  }
}

function sayTrouble(node: Told, now: number): string {
  const since = silentSince(node)
  return since === null ? `is unhealthy: ${reasonOf(node)}` : `has been silent for ${formatDuration(now - Date.parse(since))}`
}

const shortName = (name: string): string => (name.length > 40 ? `${name.slice(0, 39)}…` : name)

/** What is true of one node right now. */
export function sayNode(node: NodeView, now: number): string {
  const since = silentSince(node)
  const replicas = node.models.length === 0 ? 'runs no models' : `runs ${listNames(countNames(node.models).map(sayCounted))}`
  const wishes =
    node.pending_ops === 0 ? '' : ` ${plural(node.pending_ops, 'wish', 'wishes')} ${node.pending_ops === 1 ? 'is' : 'are'} open.`
  if (node.status === 'pending') return 'Waits for an administrator to approve it. It can do nothing until then.'
  if (since !== null)
    return `${capital(node.status)}: ${reasonOf(node)}; last heard ${formatDuration(now - Date.parse(since))} ago.${wishes}`
  if (node.status === 'healthy') {
    if (node.node_type === 'agent') return 'Healthy. An agent: it runs no models.'
    return `Healthy, ${replicas}${node.in_flight > 0 ? `, ${plural(node.in_flight, 'request')} under way` : ''}.${wishes}`
  }
  return `${capital(node.status)}: ${node.status_reason}.${node.status === 'draining' ? ` It still ${replicas}.` : ''}${wishes}`
}

export interface Counted {
  readonly name: string
  readonly count: number
}
/** Each name once, in the order of the names. */
export function countNames(names: readonly string[]): Counted[] {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].map(([name, count]) => ({ name, count })).toSorted((a, b) => (a.name < b.name ? -1 : 1))
}
export const sayCounted = ({ name, count }: Counted): string => (count === 1 ? name : `${name} ×${count}`)

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)

type Affected = Pick<NodeView, 'name' | 'status' | 'node_type' | 'pending_ops'>

const sayReplicas = (replicas: readonly ReplicaView[]): string =>
  listNames(countNames(replicas.map(({ model }) => model)).map(sayCounted), 8)
/** Those that exited are only remembered. */
const living = (replicas: readonly ReplicaView[]): ReplicaView[] => replicas.filter(({ state }) => state !== 'exited')

export function whatDrainDoes(node: Affected, replicas: readonly ReplicaView[]): string[] {
  const here = living(replicas)
  return [
    'It gets no new work until you resume it; the mark survives restarts.',
    here.length === 0
      ? 'No replicas run here, so nothing has to move.'
      : `${plural(here.length, 'replica')} (${sayReplicas(here)}) ${here.length === 1 ? 'moves' : 'move'} to other nodes: each serves on until another one is up in its place. One that has no other place serves on here.`,
    node.pending_ops === 0
      ? 'It has no open wishes; those made from now on wait for the end of the drain.'
      : `${plural(node.pending_ops, 'open wish', 'open wishes')} not begun yet ${node.pending_ops === 1 ? 'waits' : 'wait'} for the end of the drain; what it is at work on goes on.`,
  ]
}

export function whatRemovalDoes(node: Affected, replicas: readonly ReplicaView[]): string[] {
  const here = living(replicas)
  return [
    here.length === 0
      ? 'No replicas run here, so none stop.'
      : `${plural(here.length, 'replica')} (${sayReplicas(here)}) ${here.length === 1 ? 'stops' : 'stop'} at once. Models that need them come up on other nodes, if there is room. To let requests end first, drain it instead.`,
    node.pending_ops === 0
      ? 'It has no open wishes.'
      : `${plural(node.pending_ops, 'open wish is', 'open wishes are')} cancelled (“node removed”).`,
    'Its key, labels and budget are forgotten. Backends and model files stay on its disk.',
    'Its worker ends, unless it was started with a join token that is still valid: then it comes back as a new node that waits for approval.',
  ]
}

interface Taken {
  readonly kind: 'VRAM' | 'RAM'
  readonly percent: number
  /** `61 of 80 GB`. */
  readonly text: string
}

/** Of the memory that models are placed by: that of its GPU, or its RAM when there is none. */
export function memoryOf({ total_vram, available_vram, total_ram, available_ram }: Resources): Taken | null {
  if (total_vram !== null && total_vram > 0) return taken('VRAM', total_vram, available_vram)
  return total_ram === null ? null : taken('RAM', total_ram, available_ram)
}

function taken(kind: Taken['kind'], total: number, available: number | null): Taken | null {
  if (available === null || total === 0) return null
  const used = Math.max(0, total - available)
  return { kind, percent: (used / total) * 100, text: formatBytesOf(used, total) }
}

/** A line breaks between its parts alone: `16 CPUs · 64 GB RAM · 812 GB free disk`. */
export function sayMachine({ resources }: Pick<NodeView, 'resources'>): string {
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
