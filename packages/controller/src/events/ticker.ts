// Numbers that change all the time (free memory, last seen) are no changes worth storing, but whoever looks wants
// to see them move. They are sent now and then, without a cursor: who misses one misses nothing.
import type { Clock } from '@muster/host'
import type { EventHub } from './hub.ts'

const everyMs = 5_000
/** Of a larger fleet nobody watches every number, and sending them all would cost more than the fleet itself. */
const most = 256

export function createTicker({ hub, clock }: { hub: EventHub; clock: Clock }) {
  const moved = new Set<string>()
  let lastAt = clock.monotonic()
  return {
    /** Of these nodes new numbers were written. */
    note(nodes: readonly string[]): void {
      if (hub.listenerCount() === 0) return moved.clear()
      for (const node of nodes) moved.add(node)
      if (clock.monotonic() - lastAt < everyMs) return
      lastAt = clock.monotonic()
      if (moved.size <= most) void hub.tick('node', [...moved])
      moved.clear()
    },
  }
}
