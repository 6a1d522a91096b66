// How models look in tables and one by one.
import type { Clock } from '@muster/host'
import type { ModelView, OfferedModel, PlacementNode, ReplicaView } from '@muster/protocol'
import { formatAge } from '../output/amounts.ts'
import { type Column, renderFields, renderTable } from '../output/table.ts'
import { failureText, replicasText, schedulingLines, shortRevision } from './describe-model.ts'

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
const stateColumns: readonly ReplicaColumn[] = [
  { heading: 'STATE', cell: (replica) => replica.state },
  { heading: 'REACHABLE', cell: (replica) => (replica.reachable ? 'yes' : 'no') },
  { heading: 'ACTIVE', cell: (replica) => String(replica.in_flight), align: 'right' },
]
/** The build of the backend that it runs, as much of its digest as people compare. */
const buildColumn: ReplicaColumn = { heading: 'BUILD', cell: (replica) => shortRevision(replica.backend_digest ?? '') }
const upColumn = (now: number): ReplicaColumn => ({
  heading: 'UP',
  cell: (replica) => formatAge(replica.started_at, now),
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
  { heading: 'REASON', cell: (node) => node.reason, shrinks: true },
]

export interface ModelAndReplicas {
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
    ['Context', config.context_size === undefined ? 'of the backend' : String(config.context_size)],
    ['Files', config.files.map((file) => `${file.filename} from ${file.uri}`)],
    ['Parameters', settingLines(config.parameters)],
    ['Options', settingLines(config.options)],
    ['Good for', config.known_usecases.join(', ')],
  ])
  return replicas.length === 0 ? fields : `${fields}\n\n${renderTable(replicaColumns(model, at.now), replicas, at.width)}`
}

const settingLines = (settings: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(settings).map(([key, value]) => `${key}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
