// Pure: what is going on at one node of an operation, in words.
import type { OperationKind, OperationNode } from '@muster/protocol'
import { formatDuration, plural } from '../../format/amounts.ts'
import { isNodeSettled, type Mark } from './operation-words.ts'

export const busyHint = 'It took longer than its timeout; the worker is still working on it. There is nothing to do.'

export function nodeMarkOf({ status, phase }: Pick<OperationNode, 'status' | 'phase'>, kind: OperationKind): Mark {
  switch (status) {
    case 'queued':
      return { tone: 'idle', sign: '…', word: 'Queued' }
    case 'downloading':
      return { tone: 'work', word: workWord(kind, phase) }
    case 'running_on_worker':
      return { tone: 'wait', word: 'Worker busy', hint: busyHint }
    case 'success':
      return { tone: 'good', word: 'Done' }
    case 'error':
      return { tone: 'bad', word: 'Failed' }
    case 'cancelled':
      return { tone: 'idle', sign: '–', word: 'Cancelled' }
    case 'skipped':
      return { tone: 'idle', sign: '–', word: 'Skipped' }
    default:
      return status satisfies never
  }
}

/** To the server all work is `downloading`; of a delete that would be a lie. */
function workWord(kind: OperationKind, phase: OperationNode['phase']): string {
  if (kind === 'backend.delete' || kind === 'model.delete') return 'Deleting'
  if (kind === 'model.unload') return 'Unloading'
  return kind === 'model.load' && phase !== null && phase !== 'downloading' ? 'Loading' : 'Downloading'
}

const phases: Readonly<Record<NonNullable<OperationNode['phase']>, string>> = {
  resolving: 'resolving what to fetch',
  downloading: 'downloading files',
  extracting: 'extracting files',
  starting: 'starting',
}
export const phaseText = ({ phase }: Pick<OperationNode, 'phase'>): string => (phase === null ? '' : phases[phase])

/** Why it is as it is, and what comes next; empty where the mark says it all. */
export function noteOf(node: OperationNode, now: number): string {
  if (node.status === 'running_on_worker')
    return node.message === 'cancelling' ? node.message : 'took longer than its timeout; still working, nothing to do'
  if (node.status !== 'error') return node.message
  return [whatFailed(node), tries(node, now)].filter((part) => part !== '').join('; ')
}

function whatFailed({ error, error_code: code, message }: OperationNode): string {
  const reason = error !== null && error !== '' ? error : message
  if (code === 'rolled_back') return reason.startsWith('rolled back') ? reason : `rolled back: ${reason}`
  return code === null || reason.includes(code) ? reason : `${reason} (${code})`
}

function tries({ dead, attempts, next_retry_at: next }: OperationNode, now: number): string {
  const count = plural(attempts, 'try', 'tries')
  if (dead) return `given up after ${count}`
  if (next === null) return attempts > 1 ? `after ${count}` : ''
  const ms = Date.parse(next) - now
  return `${count}, next ${Number.isNaN(ms) || ms <= 999 ? 'now' : `in ${formatDuration(ms)}`}`
}

/** Where the server takes a retry: what it tries again by itself has not failed yet. */
export const canRetry = (node: Pick<OperationNode, 'status' | 'next_retry_at'>): boolean => node.status === 'error' && isNodeSettled(node)

export interface Ring {
  /** Empty where there are no rings. */
  readonly title: string
  readonly happened: string
  readonly nodes: readonly OperationNode[]
}

/** A rollout goes over them one after the other, the canary first; what runs nothing waits for nobody. */
export function ringsOf(nodes: readonly OperationNode[]): Ring[] {
  const byRing = Map.groupBy(nodes, ({ ring }) => ring)
  if (nodes.length === 0) return []
  if (byRing.size === 1 && byRing.has(null)) return [{ title: '', happened: '', nodes }]
  return [...byRing]
    .toSorted(([a], [b]) => (a ?? 0) - (b ?? 0))
    .map(([ring, inRing]) => ({
      title: ring === null ? 'At once' : ring === 1 ? 'Canary' : `Ring ${ring}`,
      happened: whatHappened(inRing),
      nodes: inRing,
    }))
}

function whatHappened(nodes: readonly OperationNode[]): string {
  const has = (is: (node: OperationNode) => boolean): boolean => nodes.some(is)
  if (has(({ error_code: code }) => code === 'rolled_back')) return 'rolled back'
  if (has(({ message }) => message.startsWith('returning to '))) return 'going back'
  if (has(({ status }) => status === 'error')) return 'failed'
  if (nodes.every(({ status }) => status === 'cancelled')) return nodes[0]?.message || 'cancelled'
  const done = nodes.filter(isNodeSettled).length
  if (done === nodes.length) return 'done'
  return done === 0 && nodes.every(({ message }) => message.startsWith('waiting for ring')) ? 'waits' : `${done} of ${nodes.length} done`
}
