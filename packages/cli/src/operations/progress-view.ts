// What shows operations while they are followed.
import type { OperationView } from '@muster/protocol'

/** An operation, and the same as it came, with fields that this version does not know. */
export interface ReceivedOperation {
  readonly operation: OperationView
  readonly raw: unknown
}

export interface ProgressView {
  put(seen: ReceivedOperation): void
  /** The controller can't be heard; it is tried again. */
  connectionLost(reason: string): void
  /** It is heard again. */
  connectionRestored(): void
  /** A moment has passed. */
  tick(): void
  /** Nothing more comes: what was shown last stays. */
  end(): void
}
