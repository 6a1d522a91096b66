// Pure: models, their loads and their placement as text, table rows and fields.
import type { Clock } from '@muster/host'
import {
  formatDuration,
  formatNodeMemory,
  type LoadFailure,
  type Loading,
  type ModelView,
  type OfferedModel,
  type PlacementNode,
  type PlacementView,
  type ReplicaView,
  type Scheduling,
} from '@muster/protocol'
import { bytesText, percentText } from '../operations/describe-operation.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { formatAge, plainText } from '../output/text.ts'

export const bareRevision = (revision: string): string => revision.replace(/^sha256[-:]/, '')

/** The prefix that people compare. */
export const shortRevision = (revision: string): string => bareRevision(revision).slice(0, 12)

/** Ready and desired replicas. */
const replicasText = ({ replicas_ready: ready, replicas_desired: desired }: ModelView): string => `${ready}/${desired}`

/** The cause, its code, and the next attempt. */
export function failureText(failure: LoadFailure | null, now: number): string {
  if (failure === null) return ''
  const code = failure.message.includes(failure.code) ? '' : ` (${failure.code})`
  // A missing node is found without an attempt.
  const count = failure.attempts === 0 ? '' : failure.attempts === 1 ? '1 attempt, ' : `${failure.attempts} attempts, `
  return `${failure.message}${code}; ${count}${nextLoadAttempt(failure.next_retry_at, now)}`
}

function nextLoadAttempt(next: string | null, now: number): string {
  if (next === null) return 'waits for a load by an administrator or a new revision'
  const at = Date.parse(next)
  return `next ${Number.isNaN(at) || at <= now ? 'now' : `in ${formatDuration(at - now)}`}`
}

/** `loading on gpu-1, 41 % (1.2 GB of 3 GB), about 11s left`. */
export function loadingText(loading: Omit<Loading, 'model'>): string {
  const { state, node, progress, current_bytes: current, total_bytes: total, eta_seconds: eta } = loading
  const where = node === null ? state : `${state} on ${node}`
  const bytes = bytesText(current, total)
  const amount = progress > 0 || bytes !== '' ? `, ${percentText(progress)}${bytes === '' ? '' : ` (${bytes})`}` : ''
  return `${where}${amount}${eta === undefined ? '' : `, about ${formatDuration(eta * 1000)} left`}`
}

/** The replicas that would be evicted; empty when a node fits, or eviction does not help. */
export function evictionText(eviction: PlacementView['eviction'] | null): string[] {
  if (eviction === null || eviction === undefined) return []
  const where = plainText(eviction.node_name || eviction.node_id)
  if (eviction.replicas.length === 0) return [`Waiting for replicas on ${where} to end.`]
  const victims = eviction.replicas.map(({ id, model }) => `${id} of ${plainText(model)}`).join(', ')
  return [`To make room on ${where}, these replicas are ended: ${victims}.`]
}

/** With defaults filled in. */
export function schedulingLines(scheduling: Scheduling): string[] {
  const { replicas, min_replicas: min = 0, priority = 0, policy = 'prefix', node_selector: selector } = scheduling
  const max = scheduling.max_replicas ?? Math.max(1, min)
  const numbers = min === max && max !== 0 ? String(max) : `${min} to ${max === 0 ? 'any number of' : max}`
  return [
    ...(scheduling.disabled === true ? ['disabled: runs nowhere'] : []),
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

export const modelColumns = (clock: Pick<Clock, 'now'>): Column<ModelView>[] => [
  { heading: 'NAME', cell: (model) => model.name },
  { heading: 'BACKEND', cell: (model) => model.backend, shrinks: true },
  { heading: 'STATE', cell: (model) => model.state },
  { heading: 'REPLICAS', cell: replicasText, align: 'right' },
  { heading: 'REVISION', cell: (model) => shortRevision(model.revision) },
  { heading: 'FAILURE', cell: (model) => failureText(model.failure, clock.now()), shrinks: true },
]

export const offeredModelColumns: Column<OfferedModel>[] = [
  { heading: 'NAME', cell: (offered) => offered.name },
  { heading: 'BACKEND', cell: (offered) => offered.backend, shrinks: true },
  { heading: 'GALLERY', cell: (offered) => offered.gallery, shrinks: true },
  { heading: 'INSTALLED', cell: (offered) => (offered.installed ? 'yes' : 'no') },
  { heading: 'LICENSE', cell: (offered) => offered.license, shrinks: true },
  { heading: 'DESCRIPTION', cell: (offered) => offered.description, shrinks: true },
]

type ReplicaColumn = Column<ReplicaView>

/** A state that may no longer hold is shown as unknown. */
function stateText({ state, unknown_since: since = null, out_of_rotation: out = null }: ReplicaView): string {
  const known = since === null ? state : `unknown since ${since}`
  return out === null ? known : `${known}, out of rotation`
}

const reachableText = ({ reachable, unknown_since: since = null }: ReplicaView): string =>
  since !== null ? 'unknown' : reachable ? 'yes' : 'no'

const stateColumns: readonly ReplicaColumn[] = [
  { heading: 'STATE', cell: stateText, shrinks: true },
  { heading: 'REACHABLE', cell: reachableText },
  { heading: 'ACTIVE', cell: (replica) => String(replica.in_flight), align: 'right' },
]
/** The backend build that the replica runs: the prefix of its digest. */
const buildColumn: ReplicaColumn = { heading: 'BUILD', cell: (replica) => shortRevision(replica.backend_digest ?? '') }
const upColumn = (now: number): ReplicaColumn => ({
  heading: 'UP',
  cell: (replica) => formatAge(replica.started_at, typeof replica.exited_at === 'string' ? Date.parse(replica.exited_at) : now),
  align: 'right',
})

const replicaColumns = (model: ModelView, now: number): ReplicaColumn[] => [
  { heading: 'REPLICA', cell: (replica) => replica.id },
  { heading: 'NODE', cell: (replica) => replica.node_name || replica.node_id, shrinks: true },
  ...stateColumns,
  { heading: 'REVISION', cell: (replica) => (replica.revision === model.revision ? 'current' : shortRevision(replica.revision)) },
  buildColumn,
  upColumn(now),
]

export const replicasOfNodeColumns = (now: number): ReplicaColumn[] => [
  { heading: 'REPLICA', cell: (replica) => replica.id },
  { heading: 'MODEL', cell: (replica) => replica.model, shrinks: true },
  ...stateColumns,
  { heading: 'REVISION', cell: (replica) => shortRevision(replica.revision) },
  buildColumn,
  upColumn(now),
]

export const placementColumns: Column<PlacementNode>[] = [
  { heading: 'NODE', cell: (node) => node.node_name || node.node_id, shrinks: true },
  { heading: 'ELIGIBLE', cell: (node) => (node.eligible ? 'yes' : 'no') },
  { heading: 'SCORE', cell: (node) => (node.eligible ? String(Math.round(node.score * 1000) / 1000) : ''), align: 'right' },
  { heading: 'MEMORY', cell: ({ memory }) => (memory === undefined ? '' : formatNodeMemory(memory)), shrinks: true },
  { heading: 'REASON', cell: (node) => node.reason || (node.warning ?? ''), shrinks: true },
]

interface ModelAndReplicas {
  readonly model: ModelView
  readonly replicas: readonly ReplicaView[]
}

export function renderModel({ model, replicas }: ModelAndReplicas, at: { now: number; width: number | null }): string {
  const { config } = model
  const fields = renderFields([
    ['Name', model.name],
    ...(config.description === undefined ? [] : [['Description', config.description] as const]),
    ['Backend', model.backend],
    ['State', model.state],
    ['Failure', failureText(model.failure, at.now)],
    ['Replicas', `${model.replicas_ready} ready of ${model.replicas_desired}`],
    ['Scheduling', schedulingLines(config.scheduling)],
    ['Revision', model.revision],
    ['Context', config.context_size === undefined ? 'default of the backend' : String(config.context_size)],
    ['Files', config.files.map((file) => `${file.filename} from ${file.uri}`)],
    ['Parameters', settingLines(config.parameters)],
    ['Options', Array.isArray(config.options) ? config.options : settingLines(config.options)],
    ...templateFields(config),
    ['Good for', config.known_usecases.join(', ')],
  ])
  if (replicas.length === 0) return fields
  const notes = replicas.flatMap(({ id, out_of_rotation: out = null }) => (out === null ? [] : [`\n${id} ${out.reason}.`]))
  return `${fields}\n\n${renderTable(replicaColumns(model, at.now), replicas, at.width)}${notes.join('')}`
}

const settingLines = (settings: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(settings).map(([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)

/** Templates are long: only their names are shown. */
const templateFields = ({ template, roles, function: tools }: ModelView['config']): (readonly [string, string])[] =>
  Object.entries({ Template: template, Roles: roles, 'Tool calls': tools }).flatMap(([label, value]) =>
    value === undefined ? [] : [[label, Object.keys(value).join(', ')] as const],
  )
