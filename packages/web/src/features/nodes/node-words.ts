// What is said of nodes, in words. Pure.
import type { NodeStatus, NodeView } from '@muster/protocol'
import type { Tone } from '../../components/state-mark.tsx'
import { formatDuration, listNames, plural } from '../../format/amounts.ts'

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
