// Converts rows of `loads`.
import { type RawBuilder, type Selectable, sql } from 'kysely'
import { z } from 'zod'
import { Failure, type Load, ModelName, NodeId, OperationId, Phase, ReplicaId, unreachable } from '@muster/protocol'
import type { LoadsTable } from './tables.ts'

/** A load, its progress, and the version of its row. */
export interface LoadRecord {
  readonly load: Load
  /** The operation that shows this load, if there is one. */
  readonly operationId: OperationId | null
  readonly bytes: LoadBytes
  readonly requestedAt: number
  readonly version: number
}
/** A load with the facts about its replica. */
export interface ListedLoad extends LoadRecord {
  /** Null unless the load is ready and has a replica. */
  readonly ready: ReadyFacts | null
}
/** The replica of a ready load. */
export interface ReadyFacts {
  /** Requests go to `passed` replicas only. */
  readonly checked: 'due' | 'passed' | 'failed'
  /** The replica is ready, its worker has confirmed it, and its node is reachable, draining or not. */
  readonly isReachable: boolean
  readonly isNodeDraining: boolean
  /** Every controller routes requests to it. */
  readonly isAdmitted: boolean
  /** Versions of the backend: that of the replica, and the one that its node lists now. */
  readonly digest: string | null
  readonly listed: string | null
}
export interface LoadBytes {
  readonly phase: Phase | null
  readonly fileName: string
  readonly current: number
  readonly total: number
  readonly seq: number | null
}
export type LoadRow = Selectable<LoadsTable>

const Purpose = z.enum(['serve', 'stage'])

/** Throws when a newer version wrote something that this one does not know. */
export function fromLoadRow(row: LoadRow): LoadRecord {
  return {
    load: loadOf(row),
    operationId: row.operation_id === null ? null : OperationId.parse(row.operation_id),
    bytes: { phase: row.phase, fileName: row.file_name, current: row.current_bytes, total: row.total_bytes, seq: row.progress_seq },
    requestedAt: at(row.requested_at),
    version: row.row_version,
  }
}

function loadOf(row: LoadRow): Load {
  const common = {
    model: ModelName.parse(row.model),
    purpose: Purpose.parse(row.purpose),
    ordinal: row.ordinal,
    revision: row.revision,
    epoch: row.epoch,
    attempts: row.attempts,
    pin: row.pinned_node_id === null ? null : NodeId.parse(row.pinned_node_id),
    needsCheck: row.needs_check,
    isRoomMade: row.is_room_made,
    note: row.note,
    lease: row.holder === null ? null : { holder: row.holder, until: at(row.lease_until) },
  }
  const replicaId = row.replica_id === null ? null : ReplicaId.parse(row.replica_id)
  const opId = row.op_id === null ? null : OperationId.parse(row.op_id)
  switch (row.state) {
    case 'waiting':
      return { ...common, state: 'waiting', nextAt: at(row.next_at) }
    case 'installing':
      return {
        ...common,
        state: 'installing',
        nodeId: NodeId.parse(row.node_id),
        installId: OperationId.parse(row.install_id),
        nextAt: at(row.next_at),
      }
    case 'starting':
      return {
        ...common,
        state: 'starting',
        nodeId: NodeId.parse(row.node_id),
        opId: OperationId.parse(opId),
        replicaId,
        signAt: at(row.sign_at),
        nextAt: at(row.next_at),
      }
    case 'ready':
      return { ...common, state: 'ready', nodeId: NodeId.parse(row.node_id), opId, replicaId, readyAt: at(row.sign_at) }
    case 'failed':
      return {
        ...common,
        state: 'failed',
        failure: Failure.parse(row.failure),
        failedAt: at(row.failed_at),
        nextAt: row.next_at === null ? null : at(row.next_at),
        nodeId: row.node_id === null ? null : NodeId.parse(row.node_id),
      }
    default:
      return unreachable(row.state)
  }
}

export const nameOfLoad = ({ model, purpose, ordinal }: Pick<LoadRow, 'model' | 'purpose' | 'ordinal'>): string =>
  `load ${purpose} ${ordinal} of ${model}`

/** Check constraints guarantee that each state has its times. */
const at = (time: string | null): number => Date.parse(time ?? '')

/** The columns that a step may change. Times are RFC 3339. */
export function loadColumns(load: Load) {
  return {
    revision: load.revision,
    state: load.state,
    epoch: load.epoch,
    op_id: 'opId' in load ? load.opId : null,
    node_id: 'nodeId' in load ? load.nodeId : null,
    replica_id: 'replicaId' in load ? load.replicaId : null,
    install_id: load.state === 'installing' ? load.installId : null,
    attempts: load.attempts,
    pinned_node_id: load.pin,
    needs_check: load.needsCheck,
    is_room_made: load.isRoomMade,
    note: load.note,
    failure: load.state === 'failed' ? JSON.stringify(load.failure) : null,
    failed_at: load.state === 'failed' ? time(load.failedAt) : null,
    next_at: load.state === 'ready' || load.nextAt === null ? null : time(load.nextAt),
    holder: load.lease?.holder ?? null,
    lease_until: load.lease === null ? null : time(load.lease.until),
    sign_at: load.state === 'starting' ? time(load.signAt) : load.state === 'ready' ? time(load.readyAt) : null,
  }
}

const time = (ms: number): string => new Date(ms).toISOString()

// A load as shown with its model and its operations.

/** Times inside JSON have PostgreSQL's format. */
const Time = z.string().transform((text) => new Date(text).toISOString())

const LoadBriefRow = z
  .object({
    purpose: z.enum(['serve', 'stage']),
    ordinal: z.number(),
    state: z.enum(['waiting', 'installing', 'starting', 'ready', 'failed']),
    phase: Phase.nullable(),
    node_id: NodeId.nullable(),
    node_name: z.string().nullable(),
    op_id: OperationId.nullable(),
    operation_id: OperationId.nullable(),
    pinned_node_id: NodeId.nullable(),
    file_name: z.string(),
    current_bytes: z.number(),
    total_bytes: z.number(),
    attempts: z.number(),
    failure: Failure.nullable(),
    failed_at: Time.nullable(),
    next_at: Time.nullable(),
    note: z.string().default(''),
  })
  .transform((row) => ({
    ...{ purpose: row.purpose, ordinal: row.ordinal, state: row.state, phase: row.phase, opId: row.op_id },
    ...{ operationId: row.operation_id, pin: row.pinned_node_id },
    ...{ nodeId: row.node_id, nodeName: row.node_name, fileName: row.file_name, attempts: row.attempts },
    ...{ currentBytes: row.current_bytes, totalBytes: row.total_bytes },
    ...{ failure: row.failure, failedAt: row.failed_at, nextAt: row.next_at, note: row.note },
  }))
export type LoadBrief = Readonly<z.infer<typeof LoadBriefRow>>

/** Leaves out loads that this version cannot read. */
export const LoadBriefs = z
  .array(z.unknown())
  .transform((rows): LoadBrief[] => rows.flatMap((row) => LoadBriefRow.safeParse(row).data ?? []))

/** The loads of a model as JSON, parsed by the schema. */
export const loadsOf = (model: RawBuilder<unknown>) => sql`
  select coalesce(jsonb_agg(to_jsonb(l) || jsonb_build_object('node_name', n.name) order by l.purpose, l.ordinal), '[]')
  from loads l left join nodes n on n.id = l.node_id where l.model = ${model}`
