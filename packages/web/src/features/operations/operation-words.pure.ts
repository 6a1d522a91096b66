// Pure: operations in words.
import { isSettled, type OperationKind, type OperationNode, type OperationView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { formatDuration, plural, searchFor } from '../../format.ts'

/** What a person reads first of a state. */
export interface Mark {
  readonly tone: Tone
  readonly sign?: string
  readonly word: string
  /** What it means, where the word alone would worry somebody. */
  readonly hint?: string
}

const verbs: Readonly<Record<OperationKind, string>> = {
  'backend.install': 'Install',
  'backend.upgrade': 'Upgrade',
  'backend.delete': 'Delete',
  'model.install': 'Install model',
  'model.load': 'Load model',
  'model.unload': 'Unload model',
  'model.delete': 'Delete model',
}
export const kindChoices = [
  { value: '', label: 'All kinds' },
  ...(['backend.install', 'backend.upgrade', 'backend.delete'] as const).map((value) => ({ value, label: `${verbs[value]} a backend` })),
  ...(['model.install', 'model.load', 'model.unload', 'model.delete'] as const).map((value) => ({
    value,
    label: verbs[value].replace(' model', ' a model'),
  })),
]

/** `Install llama`, `Load model tiny`. */
export function titleOf({ kind, backend, model }: Pick<OperationView, 'kind' | 'backend' | 'model'>): string {
  return `${verbs[kind]} ${(kind.startsWith('model.') ? model : backend) ?? ''}`.trim()
}
/** `install`, for sentences about it. */
export const nounOf = (kind: OperationKind): string => kind.slice(kind.indexOf('.') + 1)

export const isActive = ({ state }: Pick<OperationView, 'state'>): boolean => state === 'running' || state === 'background'
/** Asked to stop, and not yet stopped. */
export const isCancelling = (operation: Pick<OperationView, 'state' | 'message' | 'nodes'>): boolean => {
  const open = operation.nodes.filter((node) => !isNodeSettled(node))
  return (
    isActive(operation) && (operation.message === 'cancelling' || (open.length > 0 && open.every((node) => node.message === 'cancelling')))
  )
}

export const isNodeSettled = ({ status, next_retry_at: next }: Pick<OperationNode, 'status' | 'next_retry_at'>): boolean =>
  isSettled({ status, nextRetryAt: next === null ? null : Date.parse(next) })

export function markOf(operation: Pick<OperationView, 'state' | 'message' | 'nodes'>): Mark {
  if (isCancelling(operation)) return { tone: 'wait', sign: '◔', word: 'Cancelling', hint: 'no further try; what runs is called off' }
  switch (operation.state) {
    case 'running':
      return { tone: 'work', sign: '⟳', word: 'Running' }
    case 'background':
      return { tone: 'wait', sign: '◔', word: 'In the background', hint: 'waits for a node, or for a worker that takes its time' }
    case 'succeeded':
      return { tone: 'good', word: 'Done' }
    case 'failed':
      return { tone: 'bad', word: 'Failed' }
    case 'cancelled':
      return { tone: 'idle', sign: '–', word: 'Cancelled' }
    default:
      return operation.state satisfies never
  }
}

/** `2 of 5 nodes`; empty where it has none. Skipped ones have nothing to do. */
export function nodesDone(nodes: readonly OperationNode[]): string {
  const counted = nodes.filter(({ status }) => status !== 'skipped')
  return nodes.length === 0 ? '' : `${counted.filter(isNodeSettled).length} of ${plural(counted.length, 'node')}`
}

export const percentText = (percentage: number): string => `${Math.floor(Math.max(0, Math.min(100, percentage)))} %`

/** What is true of all of them right now. */
export function sentenceOf(active: readonly OperationView[]): string {
  const running = active.filter(({ state }) => state === 'running').length
  const behind = active.length - running
  const waiting = active.flatMap(({ nodes }) => nodes).filter((node) => node.status === 'error' && node.next_retry_at !== null).length
  const tries = waiting === 0 ? '' : ` ${plural(waiting, 'node')} failed and ${waiting === 1 ? 'is' : 'are'} tried again.`
  if (active.length === 0) return 'Nothing is running.'
  const inBackground = `${behind === 1 ? 'works' : 'work'} in the background`
  if (running === 0) return `${plural(behind, 'operation')} ${inBackground}.${tries}`
  const first = `${plural(running, 'operation')} ${running === 1 ? 'is' : 'are'} running`
  return `${first}${behind === 0 ? '' : `, ${behind} ${inBackground}`}.${tries}`
}

/** The one of many that the eye should see: what is worked on before what waits, the newest first. */
export const foremost = (active: readonly OperationView[]): OperationView | null =>
  active.find(({ state }) => state === 'running') ?? active[0] ?? null

export interface OperationFilterInput {
  readonly kind?: string | undefined
  readonly search?: string | undefined
}
/** Searched are its title, who asked for it, what it says, and the names of its nodes. */
export function filterOperations(operations: readonly OperationView[], { kind, search = '' }: OperationFilterInput): OperationView[] {
  const isFound = searchFor(search)
  return operations.filter((operation) => {
    if (kind !== undefined && kind !== '' && operation.kind !== kind) return false
    const names = operation.nodes.map(({ node_name: name }) => name)
    return isFound(titleOf(operation), operation.id, operation.requested_by, operation.state, operation.message, ...names)
  })
}

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

interface Ring {
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
