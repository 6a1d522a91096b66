// Pure: operations and their nodes in words.
import { isSettled, type OperationNode, type OperationView } from '@muster/protocol'
import { formatBytes, formatDuration } from '../output/amounts.ts'
import { plainText } from '../output/plain-text.ts'

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

/** Why it is as it is, and what comes next; empty where the status says it all. */
export function noteOf(node: OperationNode, now: number): string {
  const reason = node.error ?? node.message
  if (node.status !== 'error') return plainText(reason)
  const code = node.error_code === null || reason.includes(node.error_code) ? '' : ` (${node.error_code})`
  return plainText(`${reason}${code}${nextTry(node, now)}`)
}

function nextTry({ dead, attempts, next_retry_at: next }: OperationNode, now: number): string {
  const tries = attempts === 1 ? '1 try' : `${attempts} tries`
  if (next === null) return dead ? `; given up after ${tries}` : ''
  const at = Date.parse(next)
  return `; ${tries}, next ${Number.isNaN(at) || at <= now ? 'now' : `in ${formatDuration(at - now)}`}`
}

/** `2 of 5 nodes done`. */
export function nodesDone({ nodes }: OperationView): string {
  const done = nodes.filter(isDone).length
  return nodes.length === 0 ? '' : `${done} of ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'} done`
}

/** What its state and message say together, without saying anything twice. */
export function stateText(operation: OperationView): string {
  const message = plainText(operation.message) || nodesDone(operation)
  return message === '' || message === operation.state ? operation.state : `${operation.state}: ${message}`
}
