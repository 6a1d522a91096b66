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
  | Readonly<{ state: 'begun'; isCalledOff: boolean; /** Its next try could do with the place of the old version. */ isOutOfDisk: boolean }>
  /** The node has the new version; its replicas are moved to it and watched. */
  | Readonly<{
      state: 'proving'
      /** What is shown of it. */
      message: string
      /** Replicas that are still to be moved, and those that are not up or not checked yet. */
      left: number
      /** What was done otherwise than usual. */
      notes: readonly string[]
      trouble: Trouble | null
    }>
  | Readonly<{ state: 'upgraded' }>
  | Readonly<{ state: 'failed'; failure: Failure }>
  /** On its way back to the version before. */
  | Readonly<{ state: 'returning' }>
  /** It has the version before again; replicas that run the new one are moved back. */
  | Readonly<{ state: 'back'; left: number; error: string }>
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
  /** Why it goes back; null while it goes on. */
  readonly failure: Failure | null
  /** By name. */
  readonly nodes: readonly RolloutNode[]
}

export type RolloutEnd = 'succeeded' | 'failed' | 'cancelled'

export type RolloutAction =
  /** What was held may be tried. */
  | Readonly<{ do: 'begin'; nodeId: NodeId }>
  /** The next try takes the old version's place instead of coming beside it. */
  | Readonly<{ do: 'recreate'; nodeId: NodeId }>
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
  | Readonly<{ do: 'stop'; failure: Failure }>
  | Readonly<{ do: 'end'; end: RolloutEnd }>
