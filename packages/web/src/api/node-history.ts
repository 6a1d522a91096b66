// The last hour of a node, carried on by what its events say. Pure.
import type { nodeRoutes, NodeView, ResponseOf } from '@muster/protocol'

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
