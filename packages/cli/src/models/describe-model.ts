// Pure: models and their loads in words.
import type { Loading, LoadFailure, ModelView, PlacementView, Scheduling } from '@muster/protocol'
import { bytesText, percentText } from '../operations/describe-operation.ts'
import { formatDuration } from '../output/amounts.ts'
import { plainText } from '../output/plain-text.ts'

export const bareRevision = (revision: string): string => revision.replace(/^sha256[-:]/, '')

/** As much of a revision as people compare. */
export const shortRevision = (revision: string): string => bareRevision(revision).slice(0, 12)

/** What is ready, of what there should be. */
export const replicasText = ({ replicas_ready: ready, replicas_desired: desired }: ModelView): string => `${ready}/${desired}`

/** The cause, its code, and what comes next. */
export function failureText(failure: LoadFailure | null, now: number): string {
  if (failure === null) return ''
  const code = failure.message.includes(failure.code) ? '' : ` (${failure.code})`
  // That no node fits is found without a try.
  const tries = failure.attempts === 0 ? '' : failure.attempts === 1 ? '1 try, ' : `${failure.attempts} tries, `
  return `${failure.message}${code}; ${tries}${nextLoadTry(failure.next_retry_at, now)}`
}

function nextLoadTry(next: string | null, now: number): string {
  if (next === null) return 'waits for `muster models load` or a new revision'
  const at = Date.parse(next)
  return `next ${Number.isNaN(at) || at <= now ? 'now' : `in ${formatDuration(at - now)}`}`
}

/** `loading on gpu-1, 41 % (1.2 GB of 3.0 GB), about 11s left`. */
export function loadingText({
  state,
  node,
  progress,
  current_bytes: current,
  total_bytes: total,
  eta_seconds: eta,
}: Omit<Loading, 'model'>): string {
  const where = node === null ? state : `${state} on ${node}`
  const bytes = bytesText(current, total)
  const amount = progress > 0 || bytes !== '' ? `, ${percentText(progress)}${bytes === '' ? '' : ` (${bytes})`}` : ''
  return `${where}${amount}${eta === undefined ? '' : `, about ${formatDuration(eta * 1000)} left`}`
}

/** What would have to go so that it fits; nothing when there is a node, or nothing helps. */
export function evictionText(eviction: PlacementView['eviction'] | null): string[] {
  if (eviction === null || eviction === undefined) return []
  const where = plainText(eviction.node_name || eviction.node_id)
  if (eviction.replicas.length === 0) return [`Room comes on ${where}: what ends there is waited for.`]
  const victims = eviction.replicas.map(({ id, model }) => `${id} of ${plainText(model)}`).join(', ')
  return [`To make room on ${where}, these are ended: ${victims}.`]
}

/** With the defaults of what is left out. */
export function schedulingLines(scheduling: Scheduling): string[] {
  const { replicas, min_replicas: min = 0, priority = 0, policy = 'prefix', node_selector: selector } = scheduling
  const max = scheduling.max_replicas ?? Math.max(1, min)
  const numbers = min === max && max !== 0 ? String(max) : `${min} to ${max === 0 ? 'any number of' : max}`
  return [
    replicas === 'all' ? 'one replica on every node that matches' : `${numbers} ${numbers === '1' ? 'replica' : 'replicas'}`,
    ...(selector === undefined ? [] : [`on nodes with ${selectorText(selector)}`]),
    ...(priority === 0 ? [] : [`priority ${priority}`]),
    `requests by ${policy}`,
  ]
}

const selectorText = (selector: NonNullable<Scheduling['node_selector']>): string =>
  Object.entries(selector)
    .map(([key, value]) => `${key}=${typeof value === 'string' ? value : value.join('|')}`)
    .join(', ')
