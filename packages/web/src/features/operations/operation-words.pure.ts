// Texts about operations and their nodes: titles, states, notes, rings, filters; the byte rate and the time left.
import { canBePaused, formatDuration, isSettled, type OperationKind, type OperationNode, type OperationView } from '@muster/protocol'
import type { Tone } from '../../components/state.tsx'
import { parseTime, plural, searchFor } from '../../format.ts'

export interface Mark {
  readonly tone: Tone
  readonly sign?: string
  readonly word: string
  /** Explains the word. */
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
  'model.prefetch': 'Prefetch model',
}
export const kindChoices = [
  { value: '', label: 'All kinds' },
  ...(['backend.install', 'backend.upgrade', 'backend.delete'] as const).map((value) => ({ value, label: `${verbs[value]} backend` })),
  ...(['model.install', 'model.load', 'model.unload', 'model.delete', 'model.prefetch'] as const).map((value) => ({
    value,
    label: verbs[value],
  })),
]

/** `Install llama`, `Load model tiny`. */
export function titleOf({ kind, backend, model }: Pick<OperationView, 'kind' | 'backend' | 'model'>): string {
  return `${verbs[kind]} ${(kind.startsWith('model.') ? model : backend) ?? ''}`.trim()
}

export const isActive = ({ state }: Pick<OperationView, 'state'>): boolean => state === 'running' || state === 'background'
/** Cancel was requested, and work is still running. */
export const isCancelling = (operation: Pick<OperationView, 'state' | 'cancelling' | 'nodes'>): boolean => {
  const open = operation.nodes.filter((node) => !isNodeSettled(node))
  return isActive(operation) && (operation.cancelling === true || (open.length > 0 && open.every((node) => node.cancelling === true)))
}

export const isPaused = (operation: Pick<OperationView, 'state' | 'paused_at'>): boolean =>
  isActive(operation) && operation.paused_at !== undefined

/** The server refuses to pause other kinds, and operations that are being cancelled. */
export const canPause = (operation: OperationView): boolean =>
  isActive(operation) && canBePaused(operation.kind) && !isCancelling(operation)

const isNodeSettled = ({ status, next_retry_at: next }: Pick<OperationNode, 'status' | 'next_retry_at'>): boolean =>
  isSettled({ status, nextRetryAt: next === null ? null : parseTime(next) })

export function markOf(operation: Pick<OperationView, 'state' | 'cancelling' | 'paused_at' | 'nodes'>): Mark {
  if (isCancelling(operation)) return { tone: 'wait', sign: '◔', word: 'Cancelling', hint: 'No further attempts; running work is aborted' }
  if (isPaused(operation))
    return operation.state === 'running'
      ? { tone: 'wait', sign: '⏸', word: 'Pausing', hint: 'Running nodes finish; no further node is begun' }
      : { tone: 'wait', sign: '⏸', word: 'Paused', hint: 'No node is begun until it is resumed' }
  switch (operation.state) {
    case 'running':
      return { tone: 'work', sign: '⟳', word: 'Running' }
    case 'background':
      return { tone: 'wait', sign: '◔', word: 'In the background', hint: 'Waiting for a node, or for a worker that is still busy' }
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

/** `2 of 5 nodes`, without skipped ones; empty for an operation without nodes. */
export function nodesDone(nodes: readonly OperationNode[]): string {
  const counted = nodes.filter(({ status }) => status !== 'skipped')
  return nodes.length === 0 ? '' : `${counted.filter(isNodeSettled).length} of ${plural(counted.length, 'node')}`
}

export const percentText = (percentage: number): string => `${Math.floor(Math.max(0, Math.min(100, percentage)))} %`

export function sentenceOf(active: readonly OperationView[]): string {
  const running = active.filter(({ state }) => state === 'running').length
  const background = active.length - running
  const retrying = active.flatMap(({ nodes }) => nodes).filter((node) => node.status === 'error' && node.next_retry_at !== null).length
  const retries = retrying === 0 ? '' : ` ${plural(retrying, 'node')} failed and will be retried.`
  if (active.length === 0) return 'No operations running.'
  if (running === 0) return `${plural(background, 'operation')} in the background.${retries}`
  return `${plural(running, 'operation')} running${background === 0 ? '' : `, ${background} in the background`}.${retries}`
}

/** The operation to show first: a running one before one in the background, the newest first. */
export const foremost = (active: readonly OperationView[]): OperationView | null =>
  active.find(({ state }) => state === 'running') ?? active[0] ?? null

export interface OperationFilterInput {
  readonly kind?: string | undefined
  readonly search?: string | undefined
}
/** Searches title, ID, requester, state, message and node names. */
export function filterOperations(operations: readonly OperationView[], { kind, search = '' }: OperationFilterInput): OperationView[] {
  const isFound = searchFor(search)
  return operations.filter((operation) => {
    if (kind !== undefined && kind !== '' && operation.kind !== kind) return false
    const names = operation.nodes.map(({ node_name: name }) => name)
    return isFound(titleOf(operation), operation.id, operation.requested_by, operation.state, operation.message, ...names)
  })
}

export const busyHint = 'Running longer than its timeout; the worker is still working on it. No action needed.'

export function nodeMarkOf({ status, phase, paused }: Pick<OperationNode, 'status' | 'phase' | 'paused'>, kind: OperationKind): Mark {
  if (paused === true) return { tone: 'wait', sign: '⏸', word: 'Paused' }
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

/** The server reports all work as `downloading`. */
function workWord(kind: OperationKind, phase: OperationNode['phase']): string {
  if (kind === 'backend.delete' || kind === 'model.delete') return 'Deleting'
  if (kind === 'model.unload') return 'Unloading'
  return kind === 'model.load' && phase !== null && phase !== 'downloading' ? 'Loading' : 'Downloading'
}

const phases: Readonly<Record<NonNullable<OperationNode['phase']>, string>> = {
  resolving: 'resolving source',
  downloading: 'downloading files',
  extracting: 'extracting files',
  starting: 'starting',
}
export const phaseText = ({ phase }: Pick<OperationNode, 'phase'>): string => (phase === null ? '' : phases[phase])

/** The reason for the state and the next step; empty when the mark is enough. */
export function noteOf(node: OperationNode, now: number): string {
  if (node.status === 'running_on_worker')
    return node.cancelling === true ? node.message : 'running longer than its timeout; no action needed'
  if (node.status !== 'error') return node.message
  return [failureText(node), describeAttempts(node, now)].filter((part) => part !== '').join('; ')
}

/** The error of a rollback already names the rollback. */
function failureText({ error, error_code: code, message }: OperationNode): string {
  const reason = error || message
  return code === null || code === 'rolled_back' ? reason : `${reason} (${code})`
}

function describeAttempts({ dead, attempts, next_retry_at: next }: OperationNode, now: number): string {
  const count = plural(attempts, 'attempt')
  if (dead) return `given up after ${count}`
  if (next === null) return attempts > 1 ? `after ${count}` : ''
  const ms = parseTime(next) - now
  return `${count}, next ${Number.isNaN(ms) || ms <= 999 ? 'now' : `in ${formatDuration(ms)}`}`
}

/** It waits for its next attempt, which can begin now. */
export const canTryNow = (node: Pick<OperationNode, 'status' | 'next_retry_at'>): boolean => node.status === 'error' && !isNodeSettled(node)

/** It has failed for good. */
export const canRetry = (node: Pick<OperationNode, 'status' | 'next_retry_at'>): boolean => node.status === 'error' && isNodeSettled(node)

interface Ring {
  /** Empty without rings. */
  readonly title: string
  readonly progress: string
  readonly nodes: readonly OperationNode[]
}

/** A rollout upgrades ring after ring, the canary first. Nodes without running models have no ring. */
export function ringsOf(nodes: readonly OperationNode[]): Ring[] {
  const byRing = Map.groupBy(nodes, ({ ring }) => ring)
  if (nodes.length === 0) return []
  if (byRing.size === 1 && byRing.has(null)) return [{ title: '', progress: '', nodes }]
  return [...byRing]
    .toSorted(([a], [b]) => (a ?? 0) - (b ?? 0))
    .map(([ring, inRing]) => ({
      title: ring === null ? 'Without ring' : ring === 1 ? 'Canary' : `Ring ${ring}`,
      progress: ringProgress(inRing),
      nodes: inRing,
    }))
}

function ringProgress(nodes: readonly OperationNode[]): string {
  const has = (is: (node: OperationNode) => boolean): boolean => nodes.some(is)
  if (has(({ error_code: code }) => code === 'rolled_back')) return 'rolled back'
  if (has(({ returning }) => returning === true)) return 'rolling back'
  if (has(({ status }) => status === 'error')) return 'failed'
  if (nodes.every(({ status }) => status === 'cancelled')) return nodes[0]?.message || 'cancelled'
  const done = nodes.filter(isNodeSettled).length
  if (done === nodes.length) return 'done'
  return done === 0 && nodes.every(({ awaits_ring: awaitsRing }) => awaitsRing === true) ? 'waiting' : `${done} of ${nodes.length} done`
}

/** The byte rate counts the last seconds: an average over the whole time lags behind, and the step between two events jumps. */
const windowMs = 8_000
const minMs = 1_000

export interface Sample {
  readonly bytes: number
  readonly at: number
}

/** Adds a sample and drops outdated ones. */
export function addSample(samples: readonly Sample[], sample: Sample): readonly Sample[] {
  // Fewer bytes mean a new attempt, which starts a new series.
  const current = (samples.at(-1)?.bytes ?? 0) > sample.bytes ? [] : samples
  return within([...current, sample], sample.at)
}

/** The samples in the window, and the last one before it. */
const within = (samples: readonly Sample[], now: number): readonly Sample[] =>
  samples.filter((_, index) => (samples[index + 1]?.at ?? now) > now - windowMs)

/** Bytes per second at `now`; null with too few samples, and while no bytes arrive. */
export function rateOf(samples: readonly Sample[], now: number): number | null {
  const last = samples.at(-1)
  if (last === undefined) return null
  const at = Math.max(now, last.at)
  const [first = last] = within(samples, at)
  const ms = at - first.at
  if (ms < minMs || last.bytes <= first.bytes) return null
  return ((last.bytes - first.bytes) / ms) * 1_000
}

/** Time until all bytes have arrived; null while unknown. */
export function msLeft({ current, total }: { readonly current: number; readonly total: number }, rate: number | null): number | null {
  if (rate === null || rate <= 0 || total <= 0 || current >= total) return null
  return ((total - current) / rate) * 1_000
}

/** Rounds an estimate, so that it does not change every second. */
export function roundEstimate(ms: number): number {
  const step = ms < 10_000 ? 1_000 : ms < 120_000 ? 5_000 : ms < 600_000 ? 30_000 : 60_000
  return Math.max(1_000, Math.round(ms / step) * step)
}
