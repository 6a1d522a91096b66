// Parses an event into a change of one object, and applies changes to cached lists.
import { z } from 'zod'
import { formatTime, parseTime } from '../format.ts'
import { parseJson } from './client.ts'
import {
  BackendView,
  ModelView,
  type nodeRoutes,
  NodeView,
  type OperationFilter,
  OperationView,
  ReplicaView,
  type ResponseOf,
  type ServerEvent,
  StatsBucket,
} from '@muster/protocol'

/** `object` is null when it was deleted. */
export interface Change<T = unknown> {
  readonly id: string
  readonly object: T | null
}

const DeletedObject = z.object({ id: z.string(), deleted: z.literal(true) })
const StatsEvent = z.object({ at: z.string(), buckets: z.array(StatsBucket) })
export type StatsEvent = z.infer<typeof StatsEvent>
const schemas: Readonly<Record<string, z.ZodType>> = {
  node: NodeView,
  operation: OperationView,
  backend: BackendView,
  model: ModelView,
  replica: ReplicaView,
  stats: StatsEvent,
}

export type Order = (a: unknown, b: unknown) => number
/** A string field of an object of any kind; empty when it has none. */
function textOf(object: unknown, field: string): string {
  const value = typeof object === 'object' && object !== null ? Reflect.get(object, field) : undefined
  return typeof value === 'string' ? value : ''
}
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
export const byName: Order = (a, b) => compare(textOf(a, 'name'), textOf(b, 'name')) || compare(textOf(a, 'id'), textOf(b, 'id'))
export const newestFirst: Order = (a, b) =>
  compare(textOf(b, 'created_at'), textOf(a, 'created_at')) || compare(textOf(b, 'id'), textOf(a, 'id'))
export const oldestFirst: Order = (a, b) =>
  compare(textOf(a, 'started_at'), textOf(b, 'started_at')) || compare(textOf(a, 'id'), textOf(b, 'id'))

/** Backends and models are identified by their name, stats by their time. */
const idOf = (object: object): string =>
  'id' in object ? textOf(object, 'id') : 'name' in object ? textOf(object, 'name') : textOf(object, 'at')

export function merge(list: readonly unknown[], changes: readonly Change[], order: Order): readonly unknown[] {
  const byId = new Map(changes.map((change) => [change.id, change.object]))
  const kept = list.flatMap((object) => {
    const id = idOf(object as object)
    if (!byId.has(id)) return [object]
    const changed = byId.get(id)
    byId.delete(id)
    return changed === null ? [] : [changed]
  })
  const added = [...byId.values()].filter((object) => object !== null)
  return added.length === 0 ? kept : [...kept, ...added].toSorted(order)
}

/** Dismissed operations are only in the list of all. */
export const matchesFilter = (filter: OperationFilter, { state, dismissed_at: dismissedAt }: OperationView): boolean =>
  filter === 'all' || (dismissedAt === undefined && (filter === 'active') === (state === 'running' || state === 'background'))

export function parseEvent({ type, data }: ServerEvent): Change | null {
  const schema = schemas[type]
  if (schema === undefined) return null
  const json = parseJson(data)
  const deleted = DeletedObject.safeParse(json)
  if (deleted.success) return { id: deleted.data.id, object: null }
  const parsed = schema.safeParse(json)
  return parsed.success ? { id: idOf(parsed.data as object), object: parsed.data } : null
}

export type NodeHistory = ResponseOf<typeof nodeRoutes.history>
const hourMs = 3_600_000

/** Adds a node's current resources to its last hour. The last sample of an interval counts, as on the server; an older one is ignored. */
export function appendSample(history: NodeHistory, node: NodeView): NodeHistory {
  if (node.last_seen_at === null) return history
  const intervalMs = history.interval_seconds * 1000
  const at = Math.floor(parseTime(node.last_seen_at) / intervalMs) * intervalMs
  const newest = history.samples.at(-1)
  if (newest !== undefined && parseTime(newest.at) > at) return history
  const { available_ram, available_vram, available_disk } = node.resources
  const kept = history.samples.filter((sample) => parseTime(sample.at) > at - hourMs && parseTime(sample.at) < at)
  const sample = { at: formatTime(at), available_ram, available_vram, available_disk, in_flight: node.in_flight }
  return { ...history, samples: [...kept, sample] }
}
