// Pure: operations and their nodes as lines of a terminal, as many as there is room for.
import { formatBytes, type OperationNode, type OperationNodeStatus, type OperationView } from '@muster/protocol'
import { type Color, padTo, type Paint, progressBar, renderSegments, type Segment } from '../output/segments.ts'
import { displayWidth, plainText } from '../output/text.ts'
import { bytesText, isWorking, describeNode, percentText, stateText, titleOf } from './describe-operation.ts'

export interface RowsInput {
  readonly operations: readonly OperationView[]
  readonly width: number
  /** Lines that may be used. */
  readonly room: number
  readonly now: number
  readonly paint: Paint
  /** Bytes per second of a node, or of a whole operation. */
  rateOf(key: string): number | null
}

export const nodeKey = (operation: OperationView, node: OperationNode): string => `${operation.id} ${node.node_id}`

const colors: Readonly<Record<OperationNodeStatus | OperationView['state'], Color>> = {
  queued: 'dim',
  downloading: 'blue',
  running_on_worker: 'yellow',
  success: 'green',
  error: 'red',
  cancelled: 'yellow',
  skipped: 'dim',
  running: 'blue',
  background: 'yellow',
  succeeded: 'green',
  failed: 'red',
}

export function progressRows(input: RowsInput): string[] {
  const { operations, width, room, paint } = input
  const all = operations.flatMap((operation) => operation.nodes.map((node) => ({ key: nodeKey(operation, node), node })))
  const shown = chooseNodes(all, room - operations.length)
  const names = widest(
    all.map(({ node }) => plainText(node.node_name)).filter((name) => name !== ''),
    24,
  )
  const statuses = widest(
    all.map(({ node }) => node.status),
    17,
  )
  const lines = operations.flatMap((operation) => [
    renderSegments(operationLine(operation, input), width, paint),
    ...operation.nodes
      .filter((node) => shown.has(nodeKey(operation, node)))
      .map((node) =>
        renderSegments(nodeLine(node, { ...input, names, statuses, rate: input.rateOf(nodeKey(operation, node)) }), width, paint),
      ),
  ])
  return shown.size === all.length ? lines : [...lines, paint('dim', `  … and ${all.length - shown.size} more`)]
}

/** Working and failed nodes first, then queued ones, then those that are done. */
function chooseNodes(all: readonly { key: string; node: OperationNode }[], room: number): ReadonlySet<string> {
  if (all.length <= room) return new Set(all.map(({ key }) => key))
  const first = all.toSorted((a, b) => rankOf(a.node) - rankOf(b.node)).slice(0, Math.max(0, room - 1))
  return new Set(first.map(({ key }) => key))
}

const rankOf = (node: OperationNode): number => (isWorking(node) || node.status === 'error' ? 0 : node.status === 'queued' ? 1 : 2)

const widest = (texts: readonly string[], most: number): number => Math.min(most, Math.max(0, ...texts.map(displayWidth)))

function operationLine(operation: OperationView, { rateOf, width }: RowsInput): Segment[] {
  const head = [{ text: titleOf(operation) }, { text: '  ' }, { text: stateText(operation), color: colors[operation.state] }]
  if (operation.state !== 'running' && operation.state !== 'background') return head
  const { current_bytes: current, total_bytes: total, progress: percentage } = operation
  const amounts = amountsOf({ current, total, percentage }, operation.state === 'running' ? rateOf(operation.id) : null)
  return [...head, { text: '  ' }, ...barFor(operation.progress, width - widthOf([...head, ...amounts]) - 2), ...amounts]
}

interface NodeLineInput extends RowsInput {
  readonly names: number
  readonly statuses: number
  readonly rate: number | null
}

function nodeLine(node: OperationNode, { names, statuses, rate, now, width }: NodeLineInput): Segment[] {
  const head: Segment[] = [
    { text: `  ${padTo(plainText(node.node_name) || node.node_id, names)}  ` },
    { text: padTo(node.status, statuses), color: colors[node.status] },
  ]
  const note = describeNode(node, now)
  if (!isWorking(node)) return note === '' ? head : [...head, { text: '  ' }, { text: note }]
  const phase = { text: `  ${padTo(node.phase ?? '', 11)}  ` }
  const amounts = amountsOf(node, rate)
  const bar = barFor(node.percentage, width - widthOf([...head, phase, ...amounts]))
  return [...head, phase, ...bar, ...amounts, ...(note === '' ? [] : [{ text: '  ' }, { text: note }])]
}

function amountsOf(
  { current, total, percentage }: Pick<OperationNode, 'current' | 'total' | 'percentage'>,
  rate: number | null,
): Segment[] {
  const speed = rate === null ? '' : `${formatBytes(rate)}/s`
  return [{ text: `${bytesText(current, total).padStart(18)}  ${speed.padStart(9)}  ${percentText(percentage).padStart(5)}` }]
}

/** Empty when there is no room for a useful bar. */
function barFor(percentage: number, room: number): Segment[] {
  const width = Math.min(20, room - 2)
  if (width < 6) return []
  const { done, left } = progressBar(percentage, width)
  return [{ text: done, color: 'green' }, { text: left, color: 'dim' }, { text: '  ' }]
}

const widthOf = (segments: readonly Segment[]): number => segments.reduce((sum, { text }) => sum + displayWidth(text), 0)

const windowMs = 5_000
const leastWindowMs = 1_000

/** Bytes per second over the last seconds; null while there are too few samples. */
type MeasureRate = (key: string, bytes: number, at: number) => number | null

export function createRateMeter(): MeasureRate {
  const samples = new Map<string, { bytes: number; at: number }[]>()
  return (key, bytes, at) => {
    const known = samples.get(key) ?? []
    // Fewer bytes mean a new attempt or another file: older samples do not count.
    const since = (known.at(-1)?.bytes ?? 0) > bytes ? [] : known
    const kept = [...since, { bytes, at }].filter((sample, index, all) => (all[index + 1]?.at ?? at) >= at - windowMs)
    samples.set(key, kept)
    const first = kept[0]
    if (first === undefined || at - first.at < leastWindowMs) return null
    return ((bytes - first.bytes) / (at - first.at)) * 1000
  }
}
