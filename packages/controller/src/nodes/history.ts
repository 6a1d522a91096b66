// Resources of every node over the last hour, in the memory of this controller: every controller receives every heartbeat. The
// history is only shown, decides nothing, and starts empty with the controller.
// A node costs 240 samples of four figures, 8 bytes each: 7.7 kB; 2,000 nodes 15 MB.
import type { Clock } from '@muster/host'
import type { Heartbeat, NodeId, NodeSample } from '@muster/protocol'
import { SampleRing } from './sample-ring.ts'

const intervalMs = 15_000
const length = 240
/** IDs come from the bus and cannot be trusted, so memory is bounded: 77 MB. */
const maxNodes = 10_000

export const historyIntervalSeconds = intervalMs / 1000
export type NodeHistory = ReturnType<typeof createNodeHistory>

export interface HeardBeat {
  readonly node_id: NodeId
  readonly in_flight: number
  readonly resources: Heartbeat['resources'] | null
}

export function createNodeHistory({ clock }: { readonly clock: Clock }) {
  const rings = new Map<NodeId, SampleRing>()

  function forgetSilent(now: number): void {
    for (const [id, ring] of rings) if (ring.newestAt < now - intervalMs * length) rings.delete(id)
  }

  return {
    note({ node_id: id, in_flight: inFlight, resources }: HeardBeat): void {
      const now = clock.now()
      let ring = rings.get(id)
      if (ring === undefined) {
        if (rings.size >= maxNodes) forgetSilent(now)
        if (rings.size >= maxNodes) return
        ring = new SampleRing({ intervalMs, length, width: 4 })
        rings.set(id, ring)
      }
      const { available_ram: ram = null, available_vram: vram = null, available_disk: disk = null } = resources ?? {}
      ring.note(now, [ram, vram, disk, inFlight])
    },

    /** Oldest first. */
    read(id: NodeId): NodeSample[] {
      const rows = rings.get(id)?.read(clock.now()) ?? []
      return rows.map(({ at, figures: [ram = null, vram = null, disk = null, inFlight = null] }) => ({
        at: new Date(at).toISOString(),
        available_ram: ram,
        available_vram: vram,
        available_disk: disk,
        in_flight: inFlight,
      }))
    },

    /** The node was removed. */
    forget(id: string): void {
      rings.delete(id as NodeId)
    },
  }
}
