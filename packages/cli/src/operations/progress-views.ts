// What shows operations while they are followed.
import type { Clock } from '@muster/host'
import type { OperationNode, OperationView } from '@muster/protocol'
import type { Paint } from '../output/segments.ts'
import type { Printer, Screen } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { bytesText, isWorking, noteOf, percentText, stateText, titleOf } from './describe-operation.ts'
import { createRateMeter, nodeKey, progressRows } from './progress-rows.ts'

/** An operation, and the same as it came, with fields that this version does not know. */
export interface ReceivedOperation {
  readonly operation: OperationView
  readonly raw: unknown
}

export interface ProgressView {
  put(seen: ReceivedOperation): void
  /** The controller can't be heard; it is tried again. */
  connectionLost(reason: string): void
  /** It is heard again. */
  connectionRestored(): void
  /** A moment has passed. */
  tick(): void
  /** Nothing more comes: what was shown last stays. */
  end(): void
}

// Operations as lines, for readers that can't go back to one: files, pipes, the logs of builds. One for each change of
// a node's status or phase, and at most one per ten percent in between.

interface OperationLinesDeps {
  readonly print: Printer
  readonly clock: Pick<Clock, 'now'>
}

export function createOperationLines({ print, clock }: OperationLinesDeps): ProgressView {
  const states = new Map<string, string>()
  const nodes = new Map<string, { facts: string; tenth: number }>()
  let isLost = false

  function putNode(operation: OperationView, node: OperationNode): void {
    const key = nodeKey(operation, node)
    const last = nodes.get(key)
    const now = { facts: factsOf(node), tenth: Math.floor(node.percentage / 10) }
    if (last !== undefined && last.facts === now.facts && now.tenth <= last.tenth) return
    nodes.set(key, now)
    print.line(undefined, () => `${titleOf(operation)}: ${nodeText(node, clock.now())}`)
  }

  return {
    put: ({ operation }) => {
      for (const node of operation.nodes) putNode(operation, node)
      if (states.get(operation.id) === operation.state) return
      states.set(operation.id, operation.state)
      print.line(undefined, () => `${titleOf(operation)}: ${stateText(operation)}`)
    },
    connectionLost: (reason) => {
      if (!isLost) print.remark(`connection lost (${plainText(reason)}); trying again`)
      isLost = true
    },
    connectionRestored: () => void (isLost = false),
    tick: () => undefined,
    end: () => undefined,
  }
}

/** For programs: each operation on a line of its own, whenever it is not what it was. */
export function createOperationObjects(print: Printer): ProgressView {
  const shown = new Map<string, string>()
  return {
    ...silentView,
    put: ({ operation, raw }: ReceivedOperation) => {
      const text = JSON.stringify(raw)
      if (shown.get(operation.id) === text) return
      shown.set(operation.id, text)
      print.line(raw, () => text)
    },
  }
}

const nothing = (): void => undefined
/** For programs that want to know only what came of it. */
export const silentView: ProgressView = { put: nothing, connectionLost: nothing, connectionRestored: nothing, tick: nothing, end: nothing }

/** What is said while a node works changes with every tick; what is said while it does not is news. */
const factsOf = (node: OperationNode): string =>
  [node.status, node.phase, node.attempts, node.next_retry_at === null, isWorking(node) ? '' : (node.error ?? node.message)].join('\0')

function nodeText(node: OperationNode, now: number): string {
  const bytes = bytesText(node.current, node.total)
  const parts: string[] = [node.status, ...(node.phase === null || !isWorking(node) || node.phase === node.status ? [] : [node.phase])]
  if (isWorking(node)) parts.push(`${percentText(node.percentage)}${bytes === '' ? '' : ` (${bytes})`}`)
  const note = noteOf(node, now)
  return `${plainText(node.node_name) || node.node_id}: ${parts.join(', ')}${note === '' ? '' : `: ${note}`}`
}

// Operations on a terminal: a line for each and one for each of its nodes, drawn again in their place.

interface OperationScreenDeps {
  readonly screen: Screen
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  readonly paint: Paint
}

export function createOperationScreen({ screen, clock, paint }: OperationScreenDeps): ProgressView {
  const operations = new Map<string, OperationView>()
  const meter = createRateMeter()
  let rates = new Map<string, number | null>()
  let notice: string | null = null
  let drawn = ''

  function measure(): void {
    const at = clock.monotonic()
    rates = new Map()
    for (const operation of operations.values()) {
      rates.set(operation.id, meter.measure(operation.id, operation.current_bytes, at))
      for (const node of operation.nodes.filter(isWorking)) {
        const key = nodeKey(operation, node)
        rates.set(key, meter.measure(key, node.current, at))
      }
    }
  }

  function draw(): void {
    if (operations.size === 0) return
    measure()
    const room = screen.height() - (notice === null ? 0 : 1)
    const rateOf = (key: string): number | null => rates.get(key) ?? null
    const rows = progressRows({ operations: [...operations.values()], width: screen.width(), room, now: clock.now(), paint, rateOf })
    const lines = notice === null ? rows : [...rows, paint('yellow', notice)]
    // What looks the same is not written again: over a slow line it would flicker.
    const frame = [screen.width(), screen.height(), ...lines].join('\n')
    if (frame !== drawn) screen.draw(lines)
    drawn = frame
  }

  return {
    // Drawn with the next tick: a busy fleet changes more often than eyes can follow.
    put: ({ operation }) => {
      const isNew = !operations.has(operation.id)
      operations.set(operation.id, operation)
      if (isNew) draw()
    },
    connectionLost: (reason) => void (notice = `connection lost (${plainText(reason)}); trying again`),
    connectionRestored: () => void (notice = null),
    tick: draw,
    end: () => {
      notice = null
      draw()
    },
  }
}
