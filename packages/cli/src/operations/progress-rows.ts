// Pure: operations and their nodes as lines of a terminal, as many as there is room for.
import type { OperationNode, OperationNodeStatus, OperationView } from '@muster/protocol'
import { type Colour, padTo, type Paint, progressBar, renderSegments, type Segment } from '../output/segments.ts'
import { displayWidth, formatBytes, plainText } from '../output/text.ts'
import { bytesText, isWorking, noteOf, percentText, stateText, titleOf } from './describe-operation.ts'

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

const colours: Readonly<Record<OperationNodeStatus | OperationView['state'], Colour>> = {
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

/** Those that people look for: in work and in error first, then those that wait, then those that are done. */
function chooseNodes(all: readonly { key: string; node: OperationNode }[], room: number): ReadonlySet<string> {
  if (all.length <= room) return new Set(all.map(({ key }) => key))
  const first = all.toSorted((a, b) => rankOf(a.node) - rankOf(b.node)).slice(0, Math.max(0, room - 1))
  return new Set(first.map(({ key }) => key))
}

const rankOf = (node: OperationNode): number => (isWorking(node) || node.status === 'error' ? 0 : node.status === 'queued' ? 1 : 2)

const widest = (texts: readonly string[], most: number): number => Math.min(most, Math.max(0, ...texts.map(displayWidth)))

function operationLine(operation: OperationView, { rateOf, width }: RowsInput): Segment[] {
  const head = [{ text: titleOf(operation) }, { text: '  ' }, { text: stateText(operation), colour: colours[operation.state] }]
  if (operation.state !== 'running' && operation.state !== 'background') return head
  const amounts = amountsOf({
    current: operation.current_bytes,
    total: operation.total_bytes,
    percentage: operation.progress,
    rate: operation.state === 'running' ? rateOf(operation.id) : null,
  })
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
    { text: padTo(node.status, statuses), colour: colours[node.status] },
  ]
  const note = noteOf(node, now)
  if (!isWorking(node)) return note === '' ? head : [...head, { text: '  ' }, { text: note }]
  const phase = { text: `  ${padTo(node.phase ?? '', 11)}  ` }
  const amounts = amountsOf({ ...node, rate })
  const bar = barFor(node.percentage, width - widthOf([...head, phase, ...amounts]))
  return [...head, phase, ...bar, ...amounts, ...(note === '' ? [] : [{ text: '  ' }, { text: note }])]
}

function amountsOf({
  current,
  total,
  percentage,
  rate,
}: {
  current: number
  total: number
  percentage: number
  rate: number | null
}): Segment[] {
  const speed = rate === null ? '' : `${formatBytes(rate)}/s`
  return [{ text: `${bytesText(current, total).padStart(16)}  ${speed.padStart(8)}  ${percentText(percentage).padStart(5)}` }]
}

/** None where it would be too short to say anything. */
function barFor(percentage: number, room: number): Segment[] {
  const width = Math.min(20, room - 2)
  if (width < 6) return []
  const { done, left } = progressBar(percentage, width)
  return [{ text: done, colour: 'green' }, { text: left, colour: 'dim' }, { text: '  ' }]
}

const widthOf = (segments: readonly Segment[]): number => segments.reduce((sum, { text }) => sum + displayWidth(text), 0)

// How fast bytes come, over the last seconds: an average over all the time would say nothing of now, and the step
// between two ticks jumps.
const windowMs = 5_000
const leastWindowMs = 1_000

interface RateMeter {
  /** Bytes per second by now; null while too little is known. */
  measure(key: string, bytes: number, at: number): number | null
}

interface Sample {
  readonly bytes: number
  readonly at: number
}

export function createRateMeter(): RateMeter {
  const samples = new Map<string, Sample[]>()
  return {
    measure: (key, bytes, at) => {
      const known = samples.get(key) ?? []
      // A new attempt, or another file: what was before says nothing of it.
      const since = (known.at(-1)?.bytes ?? 0) > bytes ? [] : known
      const kept = [...since, { bytes, at }].filter((sample, index, all) => (all[index + 1]?.at ?? at) >= at - windowMs)
      samples.set(key, kept)
      const first = kept[0]
      if (first === undefined || at - first.at < leastWindowMs) return null
      return ((bytes - first.bytes) / (at - first.at)) * 1000
    },
  }
}
