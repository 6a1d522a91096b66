// Operations as lines, for readers that can't go back to one: files, pipes, the logs of builds. One for each change of
// a node's status or phase, and at most one per ten percent in between.
import type { Clock } from '@muster/host'
import type { OperationNode, OperationView } from '@muster/protocol'
import { plainText } from '../output/plain-text.ts'
import type { Printer } from '../output/printer.ts'
import { bytesText, isWorking, noteOf, percentText, stateText, titleOf } from './describe-operation.ts'
import { nodeKey } from './progress-rows.ts'
import type { ProgressView, ReceivedOperation } from './progress-view.ts'

export interface OperationLinesDeps {
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
