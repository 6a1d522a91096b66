// Pure: an event as a change of one object, and lists with such changes in their place.
import { z } from 'zod'
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

/** `object` is null when it is gone. */
export interface Change<T = unknown> {
  readonly id: string
  readonly object: T | null
}

const Gone = z.object({ id: z.string(), deleted: z.literal(true) })
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
/** Objects of every kind are sorted and found alike, by fields that are text where they are there. */
function text(object: unknown, field: string): string {
  const value = typeof object === 'object' && object !== null ? Reflect.get(object, field) : undefined
  return typeof value === 'string' ? value : ''
}
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)
export const byName: Order = (a, b) => compare(text(a, 'name'), text(b, 'name')) || compare(text(a, 'id'), text(b, 'id'))
export const newestFirst: Order = (a, b) => compare(text(b, 'created_at'), text(a, 'created_at')) || compare(text(b, 'id'), text(a, 'id'))
export const oldestFirst: Order = (a, b) => compare(text(a, 'started_at'), text(b, 'started_at')) || compare(text(a, 'id'), text(b, 'id'))

/** Of backends and models the name is the id. */
const idOf = (object: object): string =>
  'id' in object ? text(object, 'id') : 'name' in object ? text(object, 'name') : text(object, 'at')

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

export const isIn = (filter: OperationFilter, { state }: OperationView): boolean =>
  filter === 'all' || (filter === 'active') === (state === 'running' || state === 'background')

export function parseEvent({ type, data }: ServerEvent): Change | null {
  const schema = schemas[type]
  if (schema === undefined) return null
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch {
    return null
  }
  const gone = Gone.safeParse(json)
  if (gone.success) return { id: gone.data.id, object: null }
  const parsed = schema.safeParse(json)
  return parsed.success ? { id: idOf(parsed.data as object), object: parsed.data } : null
}

export type NodeHistory = ResponseOf<typeof nodeRoutes.history>
const hourMs = 3_600_000

/** The last that is heard in an interval counts, as on the server; what is older than what is there changes nothing. */
export function appendSample(history: NodeHistory, node: NodeView): NodeHistory {
  if (node.last_seen_at === null) return history
  const intervalMs = history.interval_seconds * 1000
  const at = Math.floor(Date.parse(node.last_seen_at) / intervalMs) * intervalMs
  const newest = history.samples.at(-1)
  if (newest !== undefined && Date.parse(newest.at) > at) return history
  const { available_ram, available_vram, available_disk } = node.resources
  const kept = history.samples.filter((sample) => Date.parse(sample.at) > at - hourMs && Date.parse(sample.at) < at)
  const sample = { at: new Date(at).toISOString(), available_ram, available_vram, available_disk, in_flight: node.in_flight }
  return { ...history, samples: [...kept, sample] }
}
