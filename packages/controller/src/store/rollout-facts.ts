// The rows that a rollout is decided on, and the actions that may follow. rollouts/ owns the meaning; rollouts.ts reads and writes.
import { Failure, type Intent, type NodeId } from '@muster/protocol'
import { z } from 'zod'
import type { RolloutSpec } from './rings.ts'

/** A replica on a node of the rollout. Times are milliseconds. */
export const RolloutReplica = z.object({
  model: z.string(),
  /** It runs the backend of the rollout. */
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

/** A load of a model that has, or had, a replica on a node of the rollout, or is pinned to it. */
export const RolloutLoad = z.object({
  model: z.string(),
  state: z.enum(['waiting', 'installing', 'starting', 'ready', 'failed']),
  revision: z.string(),
  attempts: z.number(),
  failure: Failure.nullable(),
  failedAt: z.number().nullable(),
  requestedAt: z.number(),
  /** `here`: the node itself, for a model of the rollout's backend or of another one. */
  pin: z.enum(['none', 'here', 'here_other_backend', 'in_rollout', 'elsewhere']),
  note: z.string(),
})
export type RolloutLoad = Readonly<z.infer<typeof RolloutLoad>>

/** A node whose intent was applied and that is not settled: its replicas are moved and watched. */
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
  isHere: boolean
  /** Its version before is known, and another one. */
  canReturn: boolean
  /** Null: it has no intent of this rollout any more. */
  state: Intent['state'] | null
  awaitsRing: boolean
  cancelRequested: boolean
  /** Its intent returns the node to the version before; then shown as the node's error. */
  rollbackError: string | null
  note: string
  lastFailure: Failure | null
  /** Its message so far. */
  message: string
  moving: MovingNode | null
}>

export interface RolloutRecord {
  readonly backend: string
  readonly spec: RolloutSpec
  readonly ring: number
  readonly rings: number
  /** For how long everything under way is healthy; null: it is not. */
  readonly wellMs: number | null
  /** How many replicas were left to be moved when that last changed, and how long ago. */
  readonly waits: Readonly<{ left: number; ms: number }> | null
  /** Why it is rolled back; null while it goes on. */
  readonly failure: Failure | null
  /** By name. */
  readonly nodes: readonly RolloutNodeRecord[]
}

export type RolloutEnd = 'succeeded' | 'failed' | 'cancelled'

export type RolloutAction =
  /** Its ring begins: it may be tried. */
  | Readonly<{ do: 'begin'; nodeId: NodeId }>
  | Readonly<{ do: 'tell'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'prove'; nodeId: NodeId; message: string }>
  | Readonly<{ do: 'withdraw'; nodeId: NodeId }>
  | Readonly<{ do: 'call_off'; nodeId: NodeId }>
  /** Back to the version before; `error` is what the node says at the end. */
  | Readonly<{ do: 'return'; nodeId: NodeId; error: string }>
  /** Nothing there runs the new version any more. */
  | Readonly<{ do: 'returned'; nodeId: NodeId; error: string }>
  /** It can't go back: it is told as what it is. */
  | Readonly<{ do: 'fail'; nodeId: NodeId; failure: Failure }>
  | Readonly<{ do: 'enter'; ring: number }>
  /** All that is under way is well, from now on or no more. */
  | Readonly<{ do: 'watch'; isWell: boolean }>
  /** So many are left to be moved, from now on; null: none is waited for. */
  | Readonly<{ do: 'wait'; left: number | null }>
  | Readonly<{ do: 'stop'; failure: Failure }>
  | Readonly<{ do: 'end'; end: RolloutEnd }>
