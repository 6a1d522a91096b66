// What shows the fleet while it is watched.
import type { NodeView } from '@muster/protocol'

/** A node, and the same as it came, with fields that this version does not know. */
export interface ReceivedNode {
  readonly node: NodeView
  readonly raw: unknown
}

export interface FleetView {
  /** All there are, just read. */
  replace(nodes: readonly ReceivedNode[]): void
  put(node: ReceivedNode): void
  remove(id: string, raw: unknown): void
  connectionLost(reason: string): void
  /** A moment has passed. */
  tick(): void
}
