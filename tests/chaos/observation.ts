// Observations of a cluster under faults: the ledger of the clients, everything that each controller showed, the disk and the
// processes of each worker, and the database at the end. Times are milliseconds of the watching process.

/** A request that was answered 202, or an install that the load of a model submitted. */
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

/** A request about a model that was answered 202. */
export interface AcceptedModelOperation {
  readonly operation: string
  readonly kind: 'load' | 'unload' | 'delete'
  readonly model: string
  readonly sentAt: number
  readonly answeredAt: number
}

/** A cancel or a retry that was answered 202. */
export interface AcceptedChange {
  readonly operation: string
  readonly kind: 'cancel' | 'retry'
  readonly sentAt: number
  readonly answeredAt: number
}

export interface ShownStatus {
  readonly status: string
  readonly isSettled: boolean
  readonly errorCode: string | null
  /** `superseded`: a newer operation took its place. `rollout`: it belongs to a ring of a rollout, which watches replicas too. */
  readonly because: 'superseded' | 'rollout' | null
}

/** Stands for a node where an operation is shown as a whole. */
export const wholeOperation = 'all'

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

/** For that long this controller answered promptly that it works and that the node is healthy, and the worker was connected. */
export interface Clear {
  readonly controller: number
  readonly node: string
  /** The node was being drained meanwhile. */
  readonly isDraining: boolean
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

/** The operation that requested a generation, attached to it, pinned it anew, retried it, or returned from it. */
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

/** A process was killed, frozen, cut off, or lost one packet in ten, until that was put right. */
export interface Fault {
  readonly what: 'kill' | 'freeze' | 'cut' | 'loss'
  /** The process; `registry` for the line to the registry. */
  readonly name: string
  readonly from: number
  readonly to: number
}

/** The life of a process with the marker of a node's worker. */
export interface Life {
  readonly node: string
  readonly replica: string
  /** When the last look that did not show it yet began, and when the first one that did had ended. */
  readonly after: number
  readonly from: number
  /** When the last look that showed it began, and when the first one that no longer did had ended. */
  readonly to: number
  readonly before: number
}

/** A controller listed a replica of a node like this, look after look; `absent`: not at all, while its process ran. */
export interface ShownReplica {
  readonly controller: number
  readonly node: string
  readonly replica: string
  /** `away`: ready, and shown as unreachable. */
  readonly shown: 'ready' | 'away' | 'other' | 'absent'
  readonly from: number
  readonly seenAt: number
  readonly to: number
}

/** A controller listed this version of a backend on a node, look after look; null: it listed none. */
export interface ShownBackend {
  readonly controller: number
  readonly node: string
  readonly backend: string
  readonly digest: string | null
  readonly from: number
  readonly seenAt: number
  readonly to: number
}

/** A model in the end, as one controller shows it. */
export interface FinalModel {
  readonly controller: number
  readonly model: string
  readonly state: string
  readonly replicasReady: number
  readonly replicasDesired: number
  readonly failure: string | null
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
  readonly faults: readonly Fault[]
  readonly modelOperations: readonly AcceptedModelOperation[]
  readonly changes: readonly AcceptedChange[]
  readonly lives: readonly Life[]
  readonly shownReplicas: readonly ShownReplica[]
  readonly shownBackends: readonly ShownBackend[]
  /** Models that exist, by the clients. */
  readonly models: readonly string[]
  readonly finalModels: readonly FinalModel[]
}

export interface Violation {
  readonly rule: string
  readonly what: string
  /** To find everything that belongs to it. */
  readonly about: Readonly<{ node?: string; backend?: string; operation?: string; generation?: number; replica?: string }>
}
