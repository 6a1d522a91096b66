// Derives the facts that decide about a rollout from the rows of its nodes: the stage of each node, the replicas left to move,
// and the trouble that counts against the new version.
import type { Failure, NodeId } from '@muster/protocol'
import type { Exit } from '../store/replicas.ts'
import type { MovingNode, RolloutLoad, RolloutNodeRecord, RolloutRecord, RolloutReplica } from '../store/rollouts.ts'

/** Evidence against the new version on a node. */
export type Trouble = Readonly<{ model: string }> &
  (
    | Readonly<{ kind: 'load'; failure: Failure }>
    | Readonly<{ kind: 'check' }>
    /** A replica that was started after the upgrade exited unexpectedly. */
    | Readonly<{ kind: 'exit'; exit: Exit }>
  )

/** The stage of a node in the rollout. */
export type RolloutStage =
  /** The ring of the node has not begun. */
  | Readonly<{ state: 'waiting' }>
  | Readonly<{ state: 'begun'; cancelRequested: boolean }>
  /** The node has the new version; its replicas are moved to it and watched. */
  | Readonly<{
      state: 'proving'
      /** The message shown so far. */
      message: string
      /** The models of replicas that still have to be moved, started or checked; a model appears once per replica. */
      left: readonly string[]
      /** Deviations, and models that are not waited for. */
      notes: readonly string[]
      /** An administrator cancelled the wait for this node. */
      cancelRequested: boolean
      trouble: Trouble | null
    }>
  | Readonly<{ state: 'upgraded' }>
  | Readonly<{ state: 'failed'; failure: Failure }>
  /** The previous version is being installed again. */
  | Readonly<{ state: 'returning' }>
  /** The node has the previous version again; replicas of the new version are moved back. */
  | Readonly<{ state: 'back'; left: readonly string[]; notes: readonly string[]; error: string }>
  /** The node is done: rolled back, cancelled or superseded. */
  | Readonly<{ state: 'settled' }>

export type RolloutNode = Readonly<{
  nodeId: NodeId
  name: string
  /** Null: no replicas ran there. The node is upgraded at once and delays no ring. */
  ring: number | null
  isReachable: boolean
  /** The previous version is known and differs from the new one. */
  canReturn: boolean
  stage: RolloutStage
}>

export type RolloutFacts = Omit<RolloutRecord, 'nodes'> & Readonly<{ nodes: readonly RolloutNode[] }>

export const factsOf = (record: RolloutRecord): RolloutFacts => ({ ...record, nodes: record.nodes.map(nodeOf) })

const nodeOf = (record: RolloutNodeRecord): RolloutNode => {
  const { nodeId, name, ring, isReachable, canReturn } = record
  return { nodeId, name, ring, isReachable, canReturn, stage: stageOf(record) }
}

function stageOf({ state, rollbackError, awaitsRing, cancelRequested, lastFailure, ...node }: RolloutNodeRecord): RolloutStage {
  const isReturning = rollbackError !== null
  switch (state) {
    case null:
    case 'cancelled':
      return { state: 'settled' }
    case 'waiting':
    case 'sending':
    case 'working':
      if (isReturning) return { state: 'returning' }
      return awaitsRing ? { state: 'waiting' } : { state: 'begun', cancelRequested }
    case 'applied':
      if (node.moving === null) return isReturning ? { state: 'settled' } : { state: 'upgraded' }
      return isReturning ? backOf(node.moving, rollbackError) : provingOf(node.moving, { ...node, cancelRequested })
    case 'failed':
    case 'dead':
      return isReturning || lastFailure === null ? { state: 'settled' } : { state: 'failed', failure: lastFailure }
  }
}

function backOf(moving: MovingNode, error: string): RolloutStage {
  const stuck = stuckModels(moving, { isReturning: true })
  const left = moving.replicas.filter((replica) => isUp(replica) && !isMoved(replica, moving) && !stuck.has(replica.model))
  const notes = [...stuck].map(([model, why]) => `${model} stays on the new version for now: ${why}`)
  return { state: 'back', left: left.map(({ model }) => model), notes, error }
}

function provingOf(
  moving: MovingNode,
  { message, note, cancelRequested }: Pick<RolloutNodeRecord, 'message' | 'note' | 'cancelRequested'>,
): RolloutStage {
  const stuck = stuckModels(moving, { isReturning: false })
  const ailing = ailingModels(moving)
  const isAwaited = ({ model }: { model: string }): boolean => !stuck.has(model) && !ailing.has(model)
  const isListed = moving.planDigest !== null || isInventoryNew(moving)
  const pinned = moving.loads.filter(({ pin }) => pin === 'here')
  const left = [
    ...moving.replicas.filter((replica) => isUp(replica) && (replica.checked === 'due' || !isListed || !isMoved(replica, moving))),
    ...pinned.filter(({ state }) => state === 'waiting' || state === 'installing' || state === 'failed'),
  ]
  const loadNotes = new Set(pinned.map((load) => load.note).filter((text) => text !== ''))
  const notes = [
    ...(note === '' ? [] : [note]),
    ...[...loadNotes].toSorted(),
    ...[...stuck].map(([model, why]) => `${model} stays on the previous version for now: ${why}`),
    ...[...ailing].filter((model) => !stuck.has(model)).map((model) => `${model} had trouble before the upgrade and is not waited for`),
    ...(isListed ? [] : ['the node has not listed the new version yet']),
  ]
  const trouble = troubleOf(moving, isAwaited)
  return { state: 'proving', message, left: left.filter(isAwaited).map(({ model }) => model), notes, trouble, cancelRequested }
}

const isUp = ({ isOwn, state }: RolloutReplica): boolean => isOwn && (state === 'starting' || state === 'ready')

const isInventoryNew = ({ inventoryAt, finishedAt }: MovingNode): boolean => inventoryAt !== null && inventoryAt >= finishedAt

/** The digest that the node should run: the listed one, unless the inventory is older than the upgrade. */
function newDigest(moving: MovingNode): string | null {
  const { planDigest, listedDigest } = moving
  const isListed = (listedDigest !== null && listedDigest === planDigest) || isInventoryNew(moving)
  return isListed ? listedDigest || null : (planDigest ?? listedDigest)
}

/** True when the replica runs the version of the node, or when one of the two is unknown. */
function isMoved({ state, digest }: RolloutReplica, moving: MovingNode): boolean {
  const wanted = newDigest(moving)
  return state !== 'starting' && (digest === null || digest === '' || wanted === null || digest === wanted)
}

/**
 * Models of the node that cannot move for reasons that are not the version's fault, with the reason: their successors have to run
 * elsewhere or have another revision, and fail. They are not waited for. A failure on another node of the rollout may be the
 * version's fault. During a rollback every failure may be, except failures of an edited model and for lack of capacity.
 */
function stuckModels({ replicas, loads }: MovingNode, { isReturning }: { isReturning: boolean }): ReadonlyMap<string, string> {
  const hasOtherReady = ({ model, revision }: RolloutLoad): boolean =>
    replicas.some((other) => other.model === model && other.state === 'ready' && other.revision !== revision)
  const isPinnedHere = ({ pin }: RolloutLoad): boolean => pin === 'here' || pin === 'here_other_backend'
  const blocks = (load: RolloutLoad, replica: RolloutReplica): boolean =>
    load.model === replica.model &&
    (load.state === 'failed' || (load.state !== 'ready' && load.attempts > 1)) &&
    (!isReturning || load.revision !== replica.revision || load.failure?.code === 'no_capacity') &&
    (load.pin === 'none' || load.pin === 'elsewhere' || hasOtherReady(load))
  const isComing = (replica: RolloutReplica): boolean =>
    loads.some((load) => load.model === replica.model && isPinnedHere(load) && load.state !== 'ready' && load.revision === replica.revision)
  const reasons = replicas
    .filter((replica) => isUp(replica) && !isComing(replica))
    .flatMap((replica) => loads.filter((load) => blocks(load, replica)))
    .map(({ model, failure }) => [model, failure?.message ?? 'its replacement does not start'] as const)
  // Keeps the first reason of each model.
  return new Map(reasons.toSorted(([a, one], [b, two]) => (a === b ? (one < two ? 1 : -1) : a < b ? -1 : 1)))
}

const ailingWithinMs = 10 * 60_000

/** Models that failed to load or kept exiting before the upgrade; their failures do not count against the new version. */
function ailingModels(moving: MovingNode): ReadonlySet<string> {
  const { replicas, loads, finishedAt } = moving
  const wanted = newDigest(moving)
  const exits = replicas.filter((replica) => {
    const { exitedAt, digest } = replica
    const isRecent = exitedAt !== null && exitedAt > finishedAt - ailingWithinMs && exitedAt <= finishedAt
    return replica.isOwn && isUnexpected(replica) && isRecent && digest !== null && wanted !== null && digest !== wanted
  })
  const exited = exits.map(({ model }) => model).filter((model, index, all) => all.indexOf(model) !== index)
  const failed = loads.filter(
    ({ model, state, attempts, requestedAt, pin }) =>
      state !== 'ready' &&
      attempts > 1 &&
      requestedAt < finishedAt &&
      pin !== 'here' &&
      pin !== 'here_other_backend' &&
      replicas.some((replica) => replica.isOwn && replica.model === model),
  )
  return new Set([...exited, ...failed.map(({ model }) => model)].toSorted())
}

/** True when the process exited without a command. */
const isUnexpected = ({ state, wasDrained, exit }: RolloutReplica): boolean =>
  state === 'exited' &&
  !wasDrained &&
  exit !== null &&
  (exit.exit_code !== undefined || exit.signal !== undefined) &&
  exit.expected !== true

/** The first trouble after the upgrade: a load that failed there, else a replica that failed its check or exited. */
function troubleOf({ replicas, loads, finishedAt }: MovingNode, isAwaited: (of: { model: string }) => boolean): Trouble | null {
  const [load] = loads
    .filter(({ pin, state, failure }) => pin === 'here' && state === 'failed' && failure !== null && failure.code !== 'no_capacity')
    .filter((each) => (each.failedAt ?? 0) > finishedAt && isAwaited(each))
    .toSorted((a, b) => (a.failedAt ?? 0) - (b.failedAt ?? 0))
  if (load !== undefined && load.failure !== null) return { kind: 'load', model: load.model, failure: load.failure }
  const [replica] = replicas
    .filter((each) => each.isOwn && each.createdAt > finishedAt && (each.checked === 'failed' || isUnexpected(each)) && isAwaited(each))
    .toSorted((a, b) => a.createdAt - b.createdAt)
  if (replica === undefined) return null
  const { model, checked, exit } = replica
  return checked === 'failed' || exit === null ? { kind: 'check', model } : { kind: 'exit', model, exit: exitOf(exit) }
}

function exitOf({ exit_code, signal, last_lines }: NonNullable<RolloutReplica['exit']>): Exit {
  return {
    ...(exit_code === undefined ? {} : { exit_code }),
    ...(signal === undefined ? {} : { signal }),
    ...(last_lines === undefined ? {} : { last_lines }),
  }
}
