// What a rollout is decided on, and what may follow. rollouts/decide.ts owns the meaning, rollouts.ts reads and writes it.
import type { Failure, NodeId } from '@muster/protocol'
import type { Exit } from './replicas.ts'
import type { RolloutSpec } from './rings.ts'

/** What speaks against the new version on a node. */
export type Trouble = Readonly<{ model: string }> &
  (
    | Readonly<{ kind: 'load'; failure: Failure }>
    | Readonly<{ kind: 'check' }>
    /** A process that was started since ended by itself. */
    | Readonly<{ kind: 'exit'; exit: Exit }>
  )

/** How the wish of the rollout stands on a node. */
export type RolloutStand =
  /** Its ring has not begun. */
  | Readonly<{ state: 'held' }>
  | Readonly<{ state: 'begun'; isCalledOff: boolean }>
  /** The node has the new version; its replicas are moved to it and watched. */
  | Readonly<{
      state: 'proving'
      /** What is shown of it. */
      message: string
      /** Whose replicas are still to be moved, are not up or not checked yet: a model once for each. */
      left: readonly string[]
      /** What was done otherwise than usual, and what is not waited for. */
      notes: readonly string[]
      /** An administrator does not want to wait for it. */
      isCalledOff: boolean
      trouble: Trouble | null
    }>
  | Readonly<{ state: 'upgraded' }>
  | Readonly<{ state: 'failed'; failure: Failure }>
  /** On its way back to the version before. */
  | Readonly<{ state: 'returning' }>
  /** It has the version before again; replicas that run the new one are moved back. */
  | Readonly<{ state: 'back'; left: readonly string[]; notes: readonly string[]; error: string }>
  /** Over: it is back, was cancelled, or a newer wish has the row. */
  | Readonly<{ state: 'settled' }>

export type RolloutNode = Readonly<{
  nodeId: NodeId
  name: string
  /** Null: nothing ran there. It is tried at once, and holds up nobody. */
  ring: number | null
  isHere: boolean
  /** It is known what it had before, and that is another version. */
  canReturn: boolean
  stand: RolloutStand
}>

export interface RolloutFacts {
  readonly backend: string
  readonly spec: RolloutSpec
  readonly ring: number
  readonly rings: number
  /** For how long all that is under way is well; null: it is not. */
  readonly wellMs: number | null
  /** How many replicas were left to be moved when it was last noted, and how long that is so. */
  readonly waits: Readonly<{ left: number; ms: number }> | null
  /** Why it goes back; null while it goes on. */
  readonly failure: Failure | null
  /** By name. */
  readonly nodes: readonly RolloutNode[]
}

export type RolloutEnd = 'succeeded' | 'failed' | 'cancelled'

export type RolloutAction =
  /** What was held may be tried. */
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
