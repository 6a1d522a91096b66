// Decides the next action for a load, and the changes of its replica. Pure: protocol/states/load.ts then moves the row.
import {
  unreachable,
  type CommandReply,
  type Failure,
  type Load,
  type LoadEvent,
  type ModelName,
  type NodeId,
  type OperationId,
  type OpStatusReply,
  type ReplicaId,
} from '@muster/protocol'
import { explainNoNode, type Exclusion, type Placement } from '../placement/placement.pure.ts'
import type { Exit, ReplicaChange, ReplicaRecord, Stamp } from '../store/replicas.ts'
import type { LoadBytes } from '../store/load-rows.ts'
import { endOf, hasMoved, outcomeOf, stallFailure, type StallLimits } from '../work/exchange.pure.ts'

/** State of the install that a load waits for. */
export type InstallStanding = Readonly<{ kind: 'open' } | { kind: 'done' } | { kind: 'gone' } | { kind: 'failed'; failure: Failure }>

export interface World {
  /** Null: the model was deleted. */
  readonly model: Readonly<{ name: ModelName; revision: string; isWanted: boolean }> | null
  /** False also when the load has no node. */
  readonly isNodeHealthy: boolean
  /** Nodes for a load that has none; or the reason why they are unknown. */
  readonly placement: Placement | Failure | null
  /** A replica without a load that lives on a present node, which was absent before. */
  readonly returned: Extract<LoadEvent, { type: 'returned' }> | null
  /** A replica of the model that it could replace. Looked for when there is no room for both. */
  readonly old: OldReplica | null
  /** As many others serve as are desired. Known only when there is no room for it. */
  readonly isSpare: boolean
  readonly install: InstallStanding | null
  /** Its built-in backend is still being assembled. */
  readonly isAssembling: boolean
}

/**
 * `now`: the old replica may end first, and frees enough room. `soon`: it may end when another new replica, which is starting,
 * serves. `not`: it has to keep serving, or its end would not free enough room.
 */
export type OldReplica = Readonly<{ ordinal: number; nodeId: NodeId; ends: 'now' | 'soon' | 'not' }>

export type Decision =
  | Readonly<{ do: 'step'; event: LoadEvent }>
  | Readonly<{ do: 'install'; nodeId: NodeId }>
  | Readonly<{ do: 'start'; nodeId: NodeId; /** Shown with the load. */ warning?: string }>
  /** Replicas of other models are evicted to make room. */
  | Readonly<{ do: 'evict'; nodeName: string; victims: readonly ReplicaId[] }>
  /** There is no room for both: the old replica ends first. */
  | Readonly<{ do: 'recreate'; old: OldReplica; note: string }>
  /** The load was quiet for a while: its worker is queried. */
  | Readonly<{ do: 'query' }>
  | Readonly<{ do: 'nothing' }>

/** Poll interval of an open install. */
const lookEveryMs = 2_000
/** A replica that ends wakes the loads that wait for room; this poll covers a lost event. */
export const afterRoomMs = 500
/** The first start assembles built-in backends, which takes seconds. */
const assembledInMs = 500
/** A node that becomes healthy wakes the loads that wait for one; this poll covers a lost event. */
const arrivesInMs = 500
/** Poll interval while a process that is about to end has the slot. */
const afterTakenMs = 500
/** After an administrator cancelled the install. */
const afterCancelMs = 2_000

export function decideLoad(load: Load, world: World): Decision {
  const { model } = world
  if (model === null || !model.isWanted) return step({ type: 'unwanted' })
  if (load.revision !== model.revision && load.state !== 'ready') return step({ type: 'revision_changed', revision: model.revision })
  switch (load.state) {
    case 'waiting': {
      if (world.returned !== null) return step(world.returned)
      const next = decidePlacement(load, model.name, world)
      if (world.isAssembling && next.do !== 'start') return step({ type: 'looked', againInMs: assembledInMs })
      return isWithoutNode(next) && isNodeAwaited(world) ? step({ type: 'looked', againInMs: arrivesInMs }) : next
    }
    case 'failed':
      return world.returned === null ? decidePlacement(load, model.name, world) : step(world.returned)
    case 'installing':
      return world.isNodeHealthy ? followInstall(world.install) : step({ type: 'node_away' })
    case 'starting':
      return world.isNodeHealthy ? { do: 'query' } : step({ type: 'node_away' })
    case 'ready':
      return world.isNodeHealthy ? { do: 'nothing' } : step({ type: 'node_away' })
    default:
      return unreachable(load)
  }
}

const step = (event: LoadEvent): Decision => ({ do: 'step', event })

const isWithoutNode = (decision: Decision): boolean =>
  decision.do === 'step' && decision.event.type === 'failed' && decision.event.failure.code === 'no_capacity'

const isNodeAwaited = ({ placement }: World): boolean =>
  placement !== null && 'nodes' in placement && placement.nodes.some(({ isAwaited }) => isAwaited)

function decidePlacement(load: Load, name: ModelName, world: World): Decision {
  const { placement } = world
  if (placement === null) return { do: 'nothing' }
  if ('code' in placement) return step({ type: 'failed', failure: placement })
  const best = placement.nodes.find(({ eligible }) => eligible)
  if (best === undefined) return makeRoom(load, placement, world) ?? step({ type: 'failed', failure: nowhere(name, placement) })
  const { node_id: nodeId, installId } = best
  const concern = best.warning === undefined ? {} : { warning: best.warning }
  if (best.hasBackend || load.purpose === 'stage') return { do: 'start', nodeId, ...concern }
  return installId === null ? { do: 'install', nodeId } : step({ type: 'install_submitted', nodeId, installId })
}

const nowhere = (name: ModelName, placement: Placement): Failure => ({
  ...{ code: 'no_capacity', retry: 'backoff', message: explainNoNode({ name }, placement) },
})

/** Exclusions that end when a process ends, and the missing resource. */
const shortOf: Readonly<Partial<Record<Exclusion, string>>> = {
  memory: 'not enough memory for two replicas',
  places: 'the replica limit is too low for two',
}

/** No node is eligible. Null: no room can be made. */
function makeRoom(load: Load, { nodes, eviction }: Placement, { old, isSpare }: World): Decision | null {
  // Files need no memory, and the node of a prefetch was chosen by an administrator.
  if (load.purpose === 'stage') return null
  if (isSpare) return step({ type: 'unwanted' })
  const shortAt = (nodeId: NodeId): string | undefined => {
    const by = nodes.find((node) => node.node_id === nodeId)?.excludedBy
    return by === null || by === undefined ? undefined : shortOf[by]
  }
  if (load.pin !== null && shortAt(load.pin) === undefined) return step({ type: 'unpinned' })
  const nameOf = (nodeId: NodeId): string => nodes.find((node) => node.node_id === nodeId)?.node_name ?? nodeId
  // The replicas that drain there already leave enough room.
  if (eviction?.victims.length === 0) return step({ type: 'room_requested', made: null, againInMs: afterRoomMs })
  // Other models are not evicted where old replicas of this one make room.
  if (old?.ends === 'soon') return null
  if (old?.ends === 'now') {
    const why = `${shortAt(old.nodeId) ?? 'not enough room'} on ${nameOf(old.nodeId)}`
    return { do: 'recreate', old, note: `${why}: the old replica was stopped first (recreate)` }
  }
  if (eviction !== null) return { do: 'evict', nodeName: nameOf(eviction.nodeId), victims: eviction.victims }
  // No replica there may end for it: the one it was to replace is gone, and another one has the room.
  return load.pin !== null && old === null ? step({ type: 'unpinned' }) : null
}

function followInstall(install: InstallStanding | null): Decision {
  switch (install?.kind) {
    case 'done':
      return step({ type: 'installed' })
    case 'failed':
      return step({ type: 'install_failed', failure: install.failure })
    case 'open':
      return step({ type: 'looked', againInMs: lookEveryMs })
    case 'gone':
    case undefined:
      return step({ type: 'install_gone', againInMs: afterCancelMs })
    default:
      return unreachable(install)
  }
}

/**
 * Event that follows from a worker's refusal. `others`: the stored replicas of its node. A process without a load that is about
 * to end may still have the slot; any other obstacle does not disappear by waiting.
 */
export function eventOfRefusal(
  { load, slot }: { load: Extract<Load, { state: 'starting' }>; slot: number },
  failure: Failure,
  others: readonly Pick<ReplicaRecord, 'id' | 'model' | 'slot' | 'hasLoad'>[],
): LoadEvent {
  const isLeft = others.some((other) => other.id !== load.replicaId && other.model === load.model && other.slot === slot && !other.hasLoad)
  return isTaken(failure) && isLeft ? { type: 'slot_taken', againInMs: afterTakenMs } : { type: 'failed', failure }
}

/** The other conflict, an id that was used before, is permanent. */
export const isTaken = ({ code, retry }: Failure): boolean => code === 'conflict' && retry === 'backoff'

/** Event that follows from a status query about a load that is starting. `unknown`: the command is sent again. */
export function eventOfStatus(
  load: Extract<Load, { state: 'starting' }>,
  { reply, bytes }: { reply: OpStatusReply; bytes: LoadBytes },
  { now, quietMs, stallMs }: StallLimits,
): LoadEvent | 'unknown' {
  const end = eventOfEnd(reply)
  if (end !== null) return end
  const isStalled = now - load.signAt > stallMs
  if (reply.state !== 'unknown' && hasMoved(reply, bytes)) return { type: 'moved', quietMs }
  if (isStalled) return { type: 'given_up', failure: stallFailure(stallMs, reply) }
  return reply.state === 'unknown' ? 'unknown' : { type: 'looked', againInMs: quietMs }
}

/** Null while the load has not ended. */
export function eventOfEnd(reply: OpStatusReply): LoadEvent | null {
  const end = endOf(reply)
  if (end === null) return null
  if (end.is === 'succeeded') return { type: 'ready' }
  // A cancel on the worker is no reason against another try while the load is wanted.
  return { type: 'failed', failure: end.is === 'cancelled' ? { ...end.failure, retry: 'backoff' } : end.failure }
}

export function eventOfReply(reply: CommandReply, quietMs: number): LoadEvent {
  const outcome = outcomeOf('load', reply)
  switch (outcome.is) {
    case 'accepted':
      return { type: 'accepted', quietMs }
    case 'refused':
      return { type: 'failed', failure: outcome.failure }
    case 'done':
      // Workers that reply at the end only run no models.
      return { type: 'failed', failure: { code: 'internal', retry: 'backoff', message: 'the worker did not accept the load' } }
    default:
      return unreachable(outcome)
  }
}

/** A worker that is present but never answers queries is given up like one whose work is stalled. */
export function eventOfSilence({ signAt }: Extract<Load, { state: 'starting' }>, limits: StallLimits, againInMs: number): LoadEvent {
  if (limits.now - signAt <= limits.stallMs) return { type: 'looked', againInMs }
  const message = `the worker did not answer for ${Math.round(limits.stallMs / 1000)} s to status queries; retrying`
  return { type: 'given_up', failure: { code: 'timeout', retry: 'backoff', message } }
}

/** Failure of the load whose process exited. */
export function failureOfExit({ exit_code: code, signal, last_lines: lines }: Exit): Failure {
  const how = signal !== undefined ? `was ended by ${signal}` : code !== undefined ? `exited with ${code}` : 'is gone'
  const output = lines === undefined || lines.length === 0 ? '' : `; its last lines: ${lines.slice(-5).join(' | ')}`
  return { code: 'internal', retry: 'backoff', message: `the backend process ${how}${output}`.slice(0, 8192) }
}

/** `seen`: the live replicas of the node when it was chosen. */
export type StartDetail = Pick<Extract<ReplicaChange, { do: 'start' }>, 'backend' | 'config' | 'seen' | 'booking'>

/** Details of a step beyond its event. */
export type StepDetail = Readonly<{
  started?: StartDetail
  backendDigest?: string | null
  exit?: Exit
  stamp?: Stamp | null
}>

/** Changes of replicas when a load takes this step. */
export function replicasOf(load: Load, event: LoadEvent, detail: StepDetail): ReplicaChange[] {
  const own = 'replicaId' in load ? load.replicaId : null
  const stamp = detail.stamp ?? null
  switch (event.type) {
    case 'placed':
      return event.replicaId === null || detail.started === undefined
        ? []
        : [started(load, { ...event, id: event.replicaId }, detail.started)]
    case 'ready':
      return own === null ? [] : [{ id: own, do: 'ready', backendDigest: detail.backendDigest ?? null, stamp }]
    case 'failed':
      return own === null ? [] : [{ id: own, do: 'exit', exit: { reason: event.failure.message.slice(0, 1024) }, stamp }]
    case 'no_responders':
      return own === null ? [] : [{ id: own, do: 'exit', exit: { reason: 'no worker on the node accepted the load' }, stamp }]
    case 'slot_taken':
      return own === null ? [] : [{ id: own, do: 'exit', exit: { reason: 'the slot was in use on the node' }, stamp }]
    case 'exited':
      return own === null ? [] : [{ id: own, do: 'exit', exit: detail.exit ?? {}, stamp }]
    case 'given_up':
    case 'check_failed':
    case 'unwanted':
    case 'revision_changed':
      return own === null ? [] : [{ id: own, do: 'drain' }]
    case 'node_away':
      return own === null ? [] : [{ id: own, do: 'release' }]
    case 'returned':
      return [{ id: event.replicaId, do: 'retake', ordinal: load.ordinal }]
    default:
      return []
  }
}

const started = (
  { model, revision, ordinal, needsCheck }: Load,
  { id, nodeId, opId }: { id: ReplicaId; nodeId: NodeId; opId: OperationId },
  how: StartDetail,
): ReplicaChange => ({ id, do: 'start', model, revision, ordinal, nodeId, opId, needsCheck, ...how })
