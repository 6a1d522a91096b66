// Observations of a cluster while its processes were killed: the ledger of the clients, the statuses that each controller
// showed, the content of each worker's disk, and the database at the end. Times are milliseconds of the watching process.

/** A request that was answered 202. */
export interface AcceptedSubmission {
  readonly operation: string
  readonly kind: 'install' | 'upgrade' | 'delete'
  readonly backend: string
  /** Asked for exactly this content; null: whatever the gallery has. */
  readonly digest: string | null
  /** Names of nodes; null: all that it concerns. */
  readonly nodes: readonly string[] | null
  /** First sent, and answered. */
  readonly sentAt: number
  readonly answeredAt: number
}

export interface ShownStatus {
  readonly status: string
  readonly isSettled: boolean
  readonly errorCode: string | null
}

/** A controller showed the same of one node of an operation, look after look, without a gap. */
export interface ShownRun extends ShownStatus {
  readonly controller: number
  readonly operation: string
  readonly node: string
  /** When the first look was asked for, and when it was answered. */
  readonly from: number
  readonly seenAt: number
  /** When the last look that showed it was asked for. */
  readonly to: number
}

/** For that long this controller, the database, the bus and this worker worked, and were seen to. */
export interface Clear {
  readonly controller: number
  readonly node: string
  readonly from: number
  readonly to: number
}

/** One accepted command in a worker's journal. */
export interface Command {
  readonly node: string
  readonly backend: string
  readonly id: number
  readonly kind: 'install' | 'upgrade' | 'delete'
  readonly generation: number
  readonly digest: string | null
  /** When the last look that did not show it began, and when the first one that did had ended. */
  readonly before: number
  readonly seenAt: number
  readonly end: Readonly<{ state: 'succeeded' | 'failed' | 'cancelled'; before: number; seenAt: number }> | null
}

/** The record of a backend in a worker's store; of one that is not installed, the digest is null. */
export interface OnDisk {
  readonly node: string
  readonly backend: string
  readonly digest: string | null
  /** Tells one writing of the record from another. */
  readonly mark: string
  /** When the first look that showed it had ended, and when the last one began. */
  readonly from: number
  readonly to: number
}

/** The intent of (node, backend) at the end. */
export interface FinalIntent {
  readonly node: string
  readonly backend: string
  readonly kind: 'install' | 'upgrade' | 'delete'
  readonly generation: number
  readonly digest: string | null
  readonly isExact: boolean
  readonly state: string
  readonly failure: string | null
}

/** The operation that requested a generation, attached to it, pinned it anew or retried it. */
export interface Owner {
  readonly generation: number
  readonly operation: string
  readonly how: string
}

/** A try that failed, by the database's history. */
export interface FailedTry {
  readonly node: string
  readonly backend: string
  readonly generation: number
  readonly at: number
}

/** An operation's node in the end, as one controller shows it. */
export interface FinalNode extends ShownStatus {
  readonly controller: number
  readonly operation: string
  readonly node: string
  /** The generation of the intent that it followed; null when it was skipped. */
  readonly generation: number | null
}

export interface Down {
  readonly name: string
  readonly from: number
  readonly to: number
}

export interface Observation {
  readonly controllers: number
  readonly accepted: readonly AcceptedSubmission[]
  readonly shown: readonly ShownRun[]
  readonly clear: readonly Clear[]
  readonly commands: readonly Command[]
  readonly disk: readonly OnDisk[]
  readonly intents: readonly FinalIntent[]
  readonly owners: readonly Owner[]
  readonly failedTries: readonly FailedTry[]
  readonly finalNodes: readonly FinalNode[]
  /** Ids of all operations that the database has. */
  readonly operations: readonly string[]
  readonly downs: readonly Down[]
}

export interface Violation {
  readonly rule: string
  readonly what: string
  /** To find everything that belongs to it. */
  readonly about: Readonly<{ node?: string; backend?: string; operation?: string; generation?: number }>
}
