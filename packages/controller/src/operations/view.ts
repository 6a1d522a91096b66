// The API view of an operation. Pure.
import {
  isSilent,
  stillInstallingMessage,
  FailureCode,
  isSettled,
  type NodeId,
  type NodePresence,
  type OperationId,
  type OperationNode,
  type OperationState,
  type OperationView,
} from '@muster/protocol'
import type { ReportedBytes, IntentRecord } from '../store/intent-rows.ts'
import type { JobRecord, OperationNodeRecord, OperationRecord } from '../store/operations.ts'
import { isFetching, openIntent, statusOfNode, statusOfOperation } from './nodes.pure.ts'
import type { ReceivedProgress, SourceSilence } from './progress.ts'

/** The progress of an intent since it was last stored, of an epoch from `since` on; null without any. */
export type LatestProgress = (nodeId: NodeId, opId: OperationId, since: number) => ReceivedProgress | null

type NodeView = Readonly<{ view: OperationNode; node: NodePresence | null; weight: number | null; receivedAt: number }>

export function viewOperation(operation: OperationRecord, latestProgress: LatestProgress = () => null): OperationView {
  const shown = operation.nodes.map((row) => showNode(row, latestProgress))
  const nodes = shown.map(({ view }) => view)
  const { job, finishedAt } = operation
  const pausedAt = finishedAt === null ? operation.pausedAt : null
  const state = statusOfOperation(
    operation,
    shown.map(({ view, node }) => ({ status: view.status, nextRetryAt: nextOf(view), node })),
  )
  const counted = nodes.filter((node) => node.status !== 'skipped')
  const latest = shown.filter(({ view }) => view.file_name !== '').toSorted((a, b) => b.receivedAt - a.receivedAt)[0]?.view.file_name
  return {
    id: operation.id,
    kind: operation.kind,
    backend: operation.backend,
    model: operation.model,
    state,
    message: withPause(
      job === null ? messageOf(state, shown) : messageOfJob(job, nodes.length === 0 ? '' : messageOf(state, shown)),
      pausedAt === null ? null : { isHeldBack: job !== null && !isFetching(job) && !hasFailed(job) },
    ),
    progress: state === 'succeeded' ? 100 : Math.max(operation.progress, progressOf(shown)),
    file_name: latest ?? operation.fileName,
    current_bytes: job !== null && nodes.length === 0 ? job.current : sum(counted.map((node) => node.current)),
    total_bytes: job !== null && nodes.length === 0 ? job.total : sum(counted.map((node) => node.total)),
    created_at: operation.createdAt,
    finished_at: finishedAt,
    requested_by: operation.requestedBy,
    ...(job?.note === undefined ? {} : { note: job.note }),
    ...(job?.outcome === null && job.cancelRequested ? { cancelling: true } : {}),
    ...(pausedAt === null ? {} : { paused_at: pausedAt }),
    ...(operation.dismissedAt === null || finishedAt === null ? {} : { dismissed_at: operation.dismissedAt }),
    nodes,
  }
}

function showNode(row: OperationNodeRecord, latestProgress: LatestProgress): NodeView {
  if (row.status === 'open') return showOpen(row, latestProgress)
  if (row.status === 'shown') return showShown(row)
  const view: OperationNode = {
    node_id: row.nodeId,
    node_name: row.nodeName,
    status: row.status,
    phase: null,
    message: row.message,
    file_name: '',
    current: row.current,
    total: row.total,
    percentage: row.status === 'success' ? 100 : round(row.percentage),
    attempts: row.attempts,
    next_retry_at: null,
    dead: row.dead,
    ring: row.ring,
    error: row.error,
    error_code: codeOf(row.errorCode),
  }
  return { view, node: null, weight: row.status === 'skipped' ? null : row.total, receivedAt: 0 }
}

function showOpen(row: Extract<OperationNodeRecord, { status: 'open' }>, latestProgress: LatestProgress): NodeView {
  const { plan } = row.record
  const intent = openIntent(row)
  const { bytes, receivedAt, hasProgress, silence: reported } = bytesOf(row.record, latestProgress)
  const { status, message, nextRetryAt, node, flags } = statusOfNode(row, hasProgress)
  const silence = status === 'downloading' ? reported : null
  const total = bytes.total > 0 ? bytes.total : (plan.sizeBytes ?? 0)
  const isError = status === 'error'
  const view: OperationNode = {
    node_id: row.nodeId,
    node_name: row.nodeName,
    status,
    phase: intent.state === 'working' || status === 'downloading' ? bytes.phase : null,
    message: message !== '' ? message : silence === null ? (plan.warning ?? '') : silenceMessage(silence),
    file_name: bytes.fileName,
    current: bytes.current,
    total,
    percentage: round(bytes.percentage),
    attempts: intent.attempts,
    next_retry_at: isoTime(nextRetryAt),
    dead: false,
    ring: row.ring,
    error: isError ? (intent.lastFailure?.message ?? '') : null,
    error_code: isError ? (intent.lastFailure?.code ?? null) : null,
    ...(silence === null ? {} : { source_silent_since: new Date(silence.since).toISOString() }),
    ...flags,
  }
  // Stored, like the percentage that it weights.
  const weight = row.record.bytes.total > 0 ? row.record.bytes.total : (plan.sizeBytes ?? 0)
  return { view, node, weight, receivedAt }
}

function showShown(row: Extract<OperationNodeRecord, { status: 'shown' }>): NodeView {
  const { status, message, nextRetryAt, node, flags } = statusOfNode(row, false)
  const isError = status === 'error'
  const view: OperationNode = {
    node_id: row.nodeId,
    node_name: row.nodeName,
    status,
    phase: status === 'downloading' || status === 'running_on_worker' ? row.phase : null,
    message,
    file_name: row.fileName,
    current: row.current,
    total: row.total,
    percentage: round(row.percentage),
    attempts: row.attempts,
    next_retry_at: isoTime(nextRetryAt),
    dead: false,
    ring: row.ring,
    error: isError ? row.error : null,
    error_code: isError ? codeOf(row.errorCode) : null,
    ...flags,
  }
  return { view, node, weight: row.total, receivedAt: 0 }
}

/** `hasProgress`: progress of this attempt was reported. */
type Bytes = Readonly<{ bytes: ReportedBytes; receivedAt: number; hasProgress: boolean; silence: SourceSilence | null }>

/** The latest progress, if it is newer than the stored one. Progress without an epoch counts while an attempt runs. */
function bytesOf({ intent, bytes: stored, triedSince }: IntentRecord, latestProgress: LatestProgress): Bytes {
  const tick = latestProgress(intent.nodeId, intent.opId, triedSince)
  const isOfThisTry = tick?.epoch === intent.epoch
  const hasContent = (bytes: ReportedBytes): boolean => bytes.fileName !== '' || bytes.phase !== null || bytes.percentage > 0
  if (tick === null || !isNewer(tick, stored) || !(tick.epoch !== null || intent.state === 'working'))
    return { bytes: stored, receivedAt: 0, silence: null, hasProgress: isOfThisTry || (intent.state === 'working' && hasContent(stored)) }
  // The stored percentage: this controller may be killed before it stores a higher one, and a bar never goes back.
  const bytes = { ...tick, percentage: stored.percentage }
  const silence = intent.state === 'working' && (isOfThisTry || tick.epoch === null) ? tick.silence : null
  return { bytes, receivedAt: tick.receivedAt, silence, hasProgress: isOfThisTry || (intent.state === 'working' && hasContent(tick)) }
}

/** The time is that of the last byte. */
function silenceMessage({ since, server, reason }: SourceSilence): string {
  const source = server === '' ? 'the source' : server
  const at = `${new Date(since).toISOString().slice(11, 19)} UTC`
  return reason === '' ? `${source} has sent nothing since ${at}` : `waiting for ${source} since ${at}: ${reason}`
}

const isNewer = (tick: ReportedBytes, stored: ReportedBytes): boolean => tick.seq === null || stored.seq === null || tick.seq >= stored.seq

/** Weighted by bytes; a node of unknown size counts as the average. */
function progressOf(shown: readonly NodeView[]): number {
  const counted = shown.flatMap(({ view, weight }) => (weight === null ? [] : [{ percentage: view.percentage, weight }]))
  if (counted.length === 0) return 0
  const known = counted.map((node) => node.weight).filter((weight) => weight > 0)
  const average = known.length === 0 ? 1 : sum(known) / known.length
  const weights = counted.map((node) => (node.weight > 0 ? node.weight : average))
  return round(sum(counted.map((node, index) => node.percentage * (weights[index] ?? 0))) / sum(weights))
}

function messageOfJob({ outcome, message, cancelRequested }: JobRecord, ofNodes: string): string {
  if (outcome === null && cancelRequested) return 'cancelling'
  return message === '' ? ofNodes : message
}

const hasFailed = ({ loads }: JobRecord): boolean =>
  loads.some(({ purpose, pin, state }) => purpose === 'stage' && pin === null && state === 'failed')

/** `isHeldBack`: the message names work that a resume would begin. */
function withPause(message: string, paused: { readonly isHeldBack: boolean } | null): string {
  if (paused === null) return message
  return paused.isHeldBack || message === '' ? 'paused' : `paused; ${message}`
}

function messageOf(state: OperationState, shown: readonly NodeView[]): string {
  const nodes = shown.map(({ view }) => view)
  const done = nodes.filter((node) => isSettled({ status: node.status, nextRetryAt: nextOf(node) }))
  const succeeded = nodes.filter((node) => node.status === 'success').length
  const counted = nodes.filter((node) => node.status !== 'skipped').length
  const skipped = nodes.length - counted
  const beside = skipped === 0 ? '' : `, ${skipped} skipped`
  if (state === 'succeeded')
    return succeeded === 1 && counted === 1
      ? (nodes.find((n) => n.status === 'success')?.message || 'done') + beside
      : `${succeeded} of ${counted} nodes done${beside}`
  if (state === 'failed') return failureOf(nodes)
  if (state === 'cancelled') return nodes.find((node) => node.status === 'cancelled')?.message ?? 'cancelled'
  const progress = `${done.length - skipped} of ${counted} nodes done${beside}`
  const busy = shown
    .filter(({ view, node }) => view.status === 'running_on_worker' && !(node !== null && isSilent(node)))
    .map(({ view }) => view.node_name)
  // A node that has failed for good is not hidden by those that are still at work.
  const failed = done.filter((node) => node.status === 'error')
  const soFar = failed.length === 0 ? progress : `${progress}; ${failureOf(failed)}`
  return busy.length === 0 ? soFar : `${stillInstallingMessage}: ${firstOf(busy, ', ')}; ${soFar}`
}

/** The reasons of the first failed nodes, and the number of the others. */
function failureOf(nodes: readonly OperationNode[]): string {
  const named = nodes.filter((node) => node.status === 'error')
  return firstOf(
    (named.length > 0 ? named : nodes).map((node) => `${node.node_name}: ${node.error ?? node.message}`),
    '; ',
  )
}

function firstOf(texts: readonly string[], separator: string): string {
  const shown = texts.slice(0, 3).join(separator)
  return texts.length > 3 ? `${shown}${separator}and ${texts.length - 3} more` : shown
}

const nextOf = (node: OperationNode): number | null => (node.next_retry_at === null ? null : Date.parse(node.next_retry_at))

function codeOf(code: string | null): OperationNode['error_code'] {
  if (code === null || code === 'rolled_back') return code
  return FailureCode.safeParse(code).data ?? 'internal'
}

const isoTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)
const round = (number: number): number => Math.floor(number * 10) / 10
