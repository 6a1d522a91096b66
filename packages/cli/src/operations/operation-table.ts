// How operations look in a table and one by one.
import type { Clock } from '@muster/host'
import { OperationId, type OperationNode, type OperationView } from '@muster/protocol'
import { usageError } from '../cli-error.ts'
import { formatAge } from '../output/amounts.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { bytesText, nodesDone, noteOf, percentText } from './describe-operation.ts'

export const operationArgument = ['<operation>', 'its id, as `muster ops ls` shows it'] as const

export function parseOperationId(word: string | undefined): OperationId {
  const parsed = OperationId.safeParse(word)
  if (parsed.success) return parsed.data
  throw usageError(`${JSON.stringify(word ?? '')} is none: ${parsed.error.issues[0]?.message ?? 'not valid'}`)
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
  { heading: 'NOTE', cell: (node) => noteOf(node, now), shrinks: true },
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
    ['Progress', [percentText(operation.progress), bytesText(operation.current_bytes, operation.total_bytes)].filter(Boolean).join(', ')],
    ['Asked for', `${ago(operation.created_at)} by ${operation.requested_by || 'somebody'}`],
    ['Finished', operation.finished_at === null ? 'not yet' : ago(operation.finished_at)],
  ])
  return operation.nodes.length === 0
    ? fields
    : `${fields}\n\n${renderTable(operationNodeColumns(operation.nodes, at.now), operation.nodes, at.width)}`
}
