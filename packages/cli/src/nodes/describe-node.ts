// Pure: nodes as table rows, fields and sentences.
import type { Clock } from '@muster/host'
import { formatFree, formatGpuProcess, type GpuCard, type NodeView } from '@muster/protocol'
import { type Column, renderFields } from '../output/table.ts'
import { formatAge, plainText } from '../output/text.ts'

export const nodeColumns = (clock: Pick<Clock, 'now'>): Column<NodeView>[] => [
  { heading: 'NAME', cell: (node) => node.name, shrinks: true },
  { heading: 'ID', cell: (node) => node.id },
  { heading: 'STATUS', cell: (node) => statusOf(node).word },
  { heading: 'CAPABILITY', cell: capabilityOf, shrinks: true },
  { heading: 'ACTIVE', cell: (node) => String(node.in_flight), align: 'right' },
  { heading: 'SEEN', cell: (node) => formatAge(node.last_seen_at, clock.now()), align: 'right' },
]

const capabilityOf = (node: NodeView): string => (node.node_type === 'agent' ? 'agent' : node.capability)

export function renderNode(node: NodeView, now: number): string {
  const { resources } = node
  return renderFields([
    ['Name', node.name],
    ['Id', node.id],
    ['Status', statusText(node)],
    ['Draining', node.draining ? 'yes' : 'no'],
    ['Type', node.node_type],
    ['Platform', `${node.os} ${node.arch}, ${node.capability}`],
    ['Version', node.features.length === 0 ? node.version : `${node.version} (${node.features.join(', ')})`],
    ['CPUs', resources.cpus === null ? '-' : String(resources.cpus)],
    ['Memory', formatFree(resources.available_ram, resources.total_ram)],
    ['GPU', resources.gpu_vendor ?? 'none'],
    ['GPU memory', resources.unified_memory ? 'shared with the CPU' : formatFree(resources.available_vram, resources.total_vram)],
    ...cardFields(resources.gpus ?? []),
    ['GPU budget', limitText(node.limits?.vram_budget ?? null, node.vram_budget) ?? 'none'],
    ['Per model', replicasText(limitText(node.limits?.max_replicas_per_model ?? null, node.max_replicas_per_model ?? null))],
    ['Disk', formatFree(resources.available_disk, resources.total_disk)],
    ['Gateway', node.gateway_url],
    ['Key', node.public_key],
    ['Joined', node.created_at],
    ['Approved', node.approved_at ?? 'not yet'],
    ['Last seen', node.last_seen_at === null ? 'never' : `${node.last_seen_at} (${formatAge(node.last_seen_at, now)} ago)`],
    ['Requests', `${node.in_flight} running`],
    ['Operations', `${node.pending_ops} open`],
    ['Backends', node.backends],
    ['Models', node.models],
    ['Labels', labelLines(node.labels)],
  ])
}

type Limit = Readonly<{ value: string | number; from: 'worker' | 'api' }>

/** With the limit that the other side set, if it is not the one in effect. */
function limitText(inEffect: Limit | null, ofAdministrator: string | number | null): string | null {
  if (inEffect === null) return ofAdministrator === null ? null : String(ofAdministrator)
  if (inEffect.from === 'api') return `${inEffect.value} (set by an administrator)`
  const other = ofAdministrator === null ? '' : `; an administrator set ${ofAdministrator}`
  return `${inEffect.value} (set at the start of the worker${other})`
}

const replicasText = (limit: string | null): string => (limit === null ? 'any number of replicas' : `at most ${limit}`)

/** One field per GPU: its memory, and the processes that use it. */
const cardFields = (gpus: readonly GpuCard[]): (readonly [string, string[]])[] =>
  gpus.map((card) => [
    `GPU ${card.index}`,
    [
      `${card.name || card.vendor}, ${formatFree(card.free, card.total)}${card.uuid === undefined ? '' : ` (${card.uuid})`}`,
      ...(card.processes ?? []).map(formatGpuProcess),
    ],
  ])

export const labelLines = (labels: Readonly<Record<string, string>>): string[] =>
  Object.entries(labels)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => `${key}=${value}`)

/** A node without a report since its approval is no problem yet. */
const isArriving = ({ status, liveness }: NodeView): boolean => status === 'unhealthy' && liveness === 'new'

function statusOf(node: NodeView): { word: string; reason: string } {
  if (!isArriving(node)) return { word: node.status, reason: node.status_reason }
  const next = node.draining ? 'it is drained, and waits for' : 'it gets work after'
  return { word: 'approved', reason: `${next} its first report, which is due within seconds of the approval` }
}

function statusText(node: NodeView): string {
  const { word, reason } = statusOf(node)
  return `${word}: ${reason}`
}

export const describeNode = (node: NodeView): string => plainText(`${node.name} (${node.id}) is ${statusText(node)}`)
