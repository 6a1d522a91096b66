// Pure: operations and their nodes as text, table rows and fields.
import type { Clock } from '@muster/host'
import { formatBytes, formatDuration, isSettled, type OperationEvent, type OperationNode, type OperationView } from '@muster/protocol'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { formatAge, plainText } from '../output/text.ts'

/** `install llama`. */
export const titleOf = ({ kind, backend, model }: OperationView): string =>
  plainText(`${kind.slice(kind.indexOf('.') + 1)} ${kind.startsWith('model.') ? (model ?? '') : (backend ?? '')}`.trim())

export const percentText = (percentage: number): string => `${Math.floor(Math.max(0, Math.min(100, percentage)))} %`

/** `1.2 GB of 4.1 GB`; empty when nothing is known. */
export function bytesText(current: number, total: number): string {
  if (total > 0) return `${formatBytes(current)} of ${formatBytes(total)}`
  return current > 0 ? formatBytes(current) : ''
}

const isDone = ({ status, next_retry_at: next }: OperationNode): boolean =>
  isSettled({ status, nextRetryAt: next === null ? null : Date.parse(next) })

export const isWorking = ({ status }: OperationNode): boolean => status === 'downloading' || status === 'running_on_worker'

/** The reason of the status and the next attempt; empty when the status needs none. */
export function describeNode(node: OperationNode, now: number): string {
  const reason = node.error ?? node.message
  if (node.status !== 'error') return plainText(reason)
  const code = node.error_code === null || reason.includes(node.error_code) ? '' : ` (${node.error_code})`
  return plainText(`${reason}${code}${nextAttempt(node, now)}`)
}

function nextAttempt({ dead, attempts, next_retry_at: next }: OperationNode, now: number): string {
  const count = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (next === null) return dead ? `; given up after ${count}` : ''
  const at = Date.parse(next)
  return `; ${count}, next ${Number.isNaN(at) || at <= now ? 'now' : `in ${formatDuration(at - now)}`}`
}

/** `2 of 5 nodes done`. */
function nodesDone({ nodes }: OperationView): string {
  const done = nodes.filter(isDone).length
  return nodes.length === 0 ? '' : `${done} of ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'} done`
}

/** State and message, without repetition. */
export function stateText(operation: OperationView): string {
  const message = plainText(operation.message) || nodesDone(operation)
  return message === '' || message === operation.state ? operation.state : `${operation.state}: ${message}`
}

export const operationColumns = (clock: Pick<Clock, 'now'>): Column<OperationView>[] => [
  { heading: 'ID', cell: (operation) => operation.id },
  { heading: 'KIND', cell: (operation) => operation.kind },
  { heading: 'OF', cell: (operation) => operation.model ?? operation.backend ?? '' },
  { heading: 'STATE', cell: (operation) => operation.state },
  { heading: 'DONE', cell: (operation) => percentText(operation.progress), align: 'right' },
  { heading: 'AGE', cell: (operation) => formatAge(operation.created_at, clock.now()), align: 'right' },
  { heading: 'MESSAGE', cell: (operation) => operation.message || nodesDone(operation), shrinks: true },
]

const operationNodeColumns = (nodes: readonly OperationNode[], now: number): Column<OperationNode>[] => [
  { heading: 'NODE', cell: (node) => node.node_name || node.node_id, shrinks: true },
  ...(nodes.some(({ ring }) => ring !== null) ? [ringColumn] : []),
  { heading: 'STATUS', cell: (node) => node.status },
  { heading: 'PHASE', cell: (node) => node.phase ?? '' },
  { heading: 'DONE', cell: (node) => percentText(node.percentage), align: 'right' },
  { heading: 'BYTES', cell: (node) => bytesText(node.current, node.total), align: 'right' },
  { heading: 'NOTE', cell: (node) => describeNode(node, now), shrinks: true },
]

const ringColumn: Column<OperationNode> = { heading: 'RING', cell: ({ ring }) => (ring === null ? '-' : String(ring)), align: 'right' }

export function renderOperation(operation: OperationView, at: { now: number; width: number | null }): string {
  const ago = (moment: string): string => `${moment} (${formatAge(moment, at.now)} ago)`
  const fields = renderFields([
    ['Id', operation.id],
    ['Kind', operation.kind],
    ...(operation.backend === null ? [] : [['Backend', operation.backend] as const]),
    ...(operation.model === null ? [] : [['Model', operation.model] as const]),
    ['State', operation.state],
    ['Message', operation.message],
    ...(operation.note === undefined ? [] : [['Note', operation.note] as const]),
    ['Progress', [percentText(operation.progress), bytesText(operation.current_bytes, operation.total_bytes)].filter(Boolean).join(', ')],
    ['Requested', `${ago(operation.created_at)} by ${operation.requested_by || 'unknown'}`],
    ...(operation.paused_at === undefined ? [] : [['Paused', ago(operation.paused_at)] as const]),
    ['Finished', operation.finished_at === null ? 'not yet' : ago(operation.finished_at)],
  ])
  return operation.nodes.length === 0
    ? fields
    : `${fields}\n\n${renderTable(operationNodeColumns(operation.nodes, at.now), operation.nodes, at.width)}`
}

export function renderHistory({ nodes }: OperationView, events: readonly OperationEvent[], width: number | null): string {
  const names = new Map(nodes.map((node) => [node.node_id, node.node_name]))
  const columns: Column<OperationEvent>[] = [
    { heading: 'TIME', cell: ({ at }) => at },
    { heading: 'NODE', cell: ({ node_id: id }) => names.get(id) ?? id },
    { heading: 'STEP', cell: ({ type }) => type },
    { heading: 'DETAILS', cell: ({ detail }) => (Object.keys(detail).length === 0 ? '' : JSON.stringify(detail)), shrinks: true },
  ]
  return events.length === 0 ? 'no history' : renderTable(columns, events, width)
}
