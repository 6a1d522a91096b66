// What shows operations while they are followed.
import type { OperationView } from '@muster/protocol'

/** An operation, and the same as it came, with fields that this version does not know. */
export interface SeenOperation {
  readonly operation: OperationView
  readonly raw: unknown
}

export interface ProgressView {
  put(seen: SeenOperation): void
  /** The controller can't be heard; it is tried again. */
  lost(reason: string): void
  /** It is heard again. */
  found(): void
  /** A moment has passed. */
  tick(): void
  /** Nothing more comes: what was shown last stays. */
  end(): void
}
