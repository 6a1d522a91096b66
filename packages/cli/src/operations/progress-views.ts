// The three ways to show followed operations: lines, JSON objects, or a screen that is redrawn.
import type { Clock } from '@muster/host'
import type { OperationNode, OperationView } from '@muster/protocol'
import type { Paint } from '../output/segments.ts'
import type { Printer, Screen } from '../output/terminal.ts'
import { plainText } from '../output/text.ts'
import { bytesText, isWorking, describeNode, percentText, stateText, titleOf } from './describe-operation.ts'
import { createRateMeter, nodeKey, progressRows } from './progress-rows.ts'

/** A parsed operation, and the raw object with fields unknown to this version. */
export interface ReceivedOperation {
  readonly operation: OperationView
  readonly raw: unknown
}

export interface ProgressView {
  put(received: ReceivedOperation): void
  /** The controller does not answer; the client retries. */
  connectionLost(reason: string): void
  /** The controller answers again. */
  connectionRestored(): void
  /** Called several times a second. */
  tick(): void
  /** The last state stays on the terminal. */
  end(): void
}

/** Lines for files, pipes and build logs: one per change of a node's status or phase, and at most one per ten percent. */
export function createOperationLines({ print, clock }: { print: Printer; clock: Pick<Clock, 'now'> }): ProgressView {
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
      if (!isLost) print.remark(`connection lost (${plainText(reason)}); retrying`)
      isLost = true
    },
    connectionRestored: () => void (isLost = false),
    tick: () => undefined,
    end: () => undefined,
  }
}

/** For programs: an operation per line, whenever it changed. */
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
/** For programs that need only the outcome. */
export const silentView: ProgressView = { put: nothing, connectionLost: nothing, connectionRestored: nothing, tick: nothing, end: nothing }

/** The message of a working node changes with every tick and is left out, unless its source is silent. */
const factsOf = (node: OperationNode): string =>
  [
    node.status,
    node.phase,
    node.attempts,
    node.next_retry_at === null,
    isWorking(node) ? (node.source_silent_since ?? '') : (node.error ?? node.message),
  ].join('\0')

function nodeText(node: OperationNode, now: number): string {
  const bytes = bytesText(node.current, node.total)
  const parts: string[] = [node.status, ...(node.phase === null || !isWorking(node) || node.phase === node.status ? [] : [node.phase])]
  if (isWorking(node)) parts.push(`${percentText(node.percentage)}${bytes === '' ? '' : ` (${bytes})`}`)
  const note = describeNode(node, now)
  return `${plainText(node.node_name) || node.node_id}: ${parts.join(', ')}${note === '' ? '' : `: ${note}`}`
}

interface OperationScreenDeps {
  readonly screen: Screen
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  readonly paint: Paint
}

/** For terminals: a line per operation and per node, redrawn in place. */
export function createOperationScreen({ screen, clock, paint }: OperationScreenDeps): ProgressView {
  const operations = new Map<string, OperationView>()
  const rateNow = createRateMeter()
  let rates = new Map<string, number | null>()
  let notice: string | null = null
  let drawn = ''

  function measure(): void {
    const at = clock.monotonic()
    rates = new Map()
    for (const operation of operations.values()) {
      rates.set(operation.id, rateNow(operation.id, operation.current_bytes, at))
      for (const node of operation.nodes.filter(isWorking)) {
        const key = nodeKey(operation, node)
        rates.set(key, rateNow(key, node.current, at))
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
    // An unchanged frame is not written: it would flicker over a slow connection.
    const frame = [screen.width(), screen.height(), ...lines].join('\n')
    if (frame !== drawn) screen.draw(lines)
    drawn = frame
  }

  return {
    // Drawn at the next tick: a busy fleet changes faster than people can read.
    put: ({ operation }) => {
      const isNew = !operations.has(operation.id)
      operations.set(operation.id, operation)
      if (isNew) draw()
    },
    connectionLost: (reason) => void (notice = `connection lost (${plainText(reason)}); retrying`),
    connectionRestored: () => void (notice = null),
    tick: draw,
    end: () => {
      notice = null
      draw()
    },
  }
}
