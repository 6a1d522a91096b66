// The rows that decide about a rollout, and the possible actions. rollouts/ owns their meaning; rollouts.ts reads and writes
// them.
import { Failure, type Intent, type NodeId } from '@muster/protocol'
import { z } from 'zod'
import type { RolloutSpec } from './rings.ts'

/** A replica on a node of the rollout. Times are milliseconds. */
export const RolloutReplica = z.object({
  model: z.string(),
  /** The replica runs the backend of the rollout. */
  isOwn: z.boolean(),
  state: z.enum(['starting', 'ready', 'draining', 'exited']),
  revision: z.string(),
  digest: z.string().nullable(),
  checked: z.enum(['due', 'passed', 'failed']),
  wasDrained: z.boolean(),
  createdAt: z.number(),
  exitedAt: z.number().nullable(),
  exit: z
    .object({ exit_code: z.number(), signal: z.string(), last_lines: z.array(z.string()), expected: z.boolean() })
    .partial()
    .nullable(),
})
export type RolloutReplica = Readonly<z.infer<typeof RolloutReplica>>

/** A load of a model that has or had a replica on a node of the rollout, or a load that is pinned to the node. */
export const RolloutLoad = z.object({
  model: z.string(),
  state: z.enum(['waiting', 'installing', 'starting', 'ready', 'failed']),
  revision: z.string(),
  attempts: z.number(),
  failure: Failure.nullable(),
  failedAt: z.number().nullable(),
  requestedAt: z.number(),
  /** `here`: pinned to this node, for a model of the rollout's backend or of another one. */
  pin: z.enum(['none', 'here', 'here_other_backend', 'in_rollout', 'elsewhere']),
  note: z.string(),
})
export type RolloutLoad = Readonly<z.infer<typeof RolloutLoad>>

/** A node whose intent is applied and that is not settled: its replicas are moved and watched. */
export type MovingNode = Readonly<{
  finishedAt: number
  planDigest: string | null
  /** The version in the node's inventory. */
  listedDigest: string | null
  inventoryAt: number | null
  replicas: readonly RolloutReplica[]
  loads: readonly RolloutLoad[]
}>

export type RolloutNodeRecord = Readonly<{
  nodeId: NodeId
  name: string
  ring: number | null
  isReachable: boolean
  /** The previous version is known and differs from the new one. */
  canReturn: boolean
  /** Null: the node has no intent of this rollout any more. */
  state: Intent['state'] | null
  awaitsRing: boolean
  cancelRequested: boolean
  /** Set when the intent returns the node to the previous version; shown as the node's error when that is done. */
  rollbackError: string | null
  note: string
  lastFailure: Failure | null
  /** The message shown so far. */
  message: string
  moving: MovingNode | null
}>

export interface RolloutRecord {
  readonly backend: string
  readonly spec: RolloutSpec
  readonly ring: number
  readonly rings: number
  /** How long all upgraded nodes have been healthy; null: not all are. */
  readonly wellMs: number | null
  /** The number of replicas left to move when it last changed, and how long ago that was. */
  readonly waits: Readonly<{ left: number; ms: number }> | null
  /** The reason of the rollback; null: there is none. */
  readonly failure: Failure | null
  /** Sorted by name. */
  readonly nodes: readonly RolloutNodeRecord[]
}

export type RolloutEnd = 'succeeded' | 'failed' | 'cancelled'

export type RolloutAction =
  /** The ring of the node begins, so its intent may be sent. */
  | Readonly<{ do: 'begin'; nodeId: NodeId }>
  | Readonly<{ do: 'message'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'prove'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'withdraw'; nodeId: NodeId }>
  | Readonly<{ do: 'cancel'; nodeId: NodeId }>
  /** Return the node to the previous version; `error` is shown at the end. */
  | Readonly<{ do: 'return'; nodeId: NodeId; error: string }>
  /** No replica of the node runs the new version any more. */
  | Readonly<{ do: 'returned'; nodeId: NodeId; error: string }>
  /** The node cannot return to the previous version; its failure is shown. */
  | Readonly<{ do: 'fail'; nodeId: NodeId; failure: Failure }>
  | Readonly<{ do: 'enter'; ring: number }>
  /** All upgraded nodes are healthy from now on, or not any more. */
  | Readonly<{ do: 'watch'; isWell: boolean }>
  /** This many replicas are left to move from now on; null: none is waited for. */
  | Readonly<{ do: 'wait'; left: number | null }>
  | Readonly<{ do: 'stop'; failure: Failure }>
  | Readonly<{ do: 'end'; end: RolloutEnd }>
