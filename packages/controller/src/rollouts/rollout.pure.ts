// Decides the next step of a rollout. Pure: it is decided again whenever something may have changed. One ring is in progress at a
// time; a node is done when its replicas have moved to the new version and stay healthy. The facts are derived from the rows of
// the nodes: the stage of each node, the replicas left to move, and the trouble that counts against the new version.
import { type Failure, type NodeId, unreachable } from '@muster/protocol'
import { failureOfExit } from '../loads/loads.pure.ts'
import type { Exit } from '../store/replicas.ts'
import type { MovingNode, RolloutAction, RolloutLoad, RolloutNodeRecord, RolloutRecord, RolloutReplica } from '../store/rollouts.ts'

/** Evidence against the new version on a node. */
type Trouble = Readonly<{ model: string }> &
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

type At<State extends RolloutStage['state']> = RolloutNode & { readonly stage: Extract<RolloutStage, { state: State }> }

/** Time limit for replicas that should move and do not. */
const maxWaitMs = 15 * 60_000

export function decideRollout(facts: RolloutFacts): RolloutAction[] {
  const isLate = facts.failure === null && isOverdue(facts)
  const own = (node: RolloutNode): Failure | null => failureAt(node, isLate)
  if (facts.failure !== null) return rollBack(facts, facts.failure, own)
  const failed = facts.nodes.flatMap((node): FailedNode[] => {
    const failure = node.ring === null ? null : own(node)
    return failure === null ? [] : [{ node, failure }]
  })
  const [first] = failed
  if (first === undefined) return advance(facts)
  const failure = failureOfRing(first)
  return [{ do: 'stop', failure }, ...rollBack({ ...facts, failure, waits: null }, failure, own)]
}

function advance(facts: RolloutFacts): RolloutAction[] {
  const inRings = facts.nodes.filter((node) => node.ring !== null)
  const done = [...proveCancelled(inRings), ...settleReturned(inRings)]
  if (done.length > 0) return done
  const underWay = underWayOf(inRings)
  const beside = updateMessages(facts)
  return [...beside, ...(underWay.length > 0 ? watch(underWay, facts) : beginNext(inRings, facts))]
}

const underWayOf = (inRings: readonly RolloutNode[]): RolloutNode[] =>
  inRings.filter((node) => node.isReachable && (isAt(node, 'begun') || isWatched(node)))

const isWatched = (node: RolloutNode): node is At<'proving'> => isAt(node, 'proving') && !node.stage.cancelRequested

/** A cancelled node is not waited for: it has the new version, and its replicas move on their own. */
const proveCancelled = (inRings: readonly RolloutNode[]): RolloutAction[] =>
  inRings.flatMap((node) =>
    isAt(node, 'proving') && node.stage.cancelRequested
      ? [{ do: 'prove', nodeId: node.nodeId, message: cancelledMessage(node.stage) }]
      : [],
  )

/** Nodes that were absent during the rollback, and are back while the others are upgraded again. */
const settleReturned = (inRings: readonly RolloutNode[]): RolloutAction[] =>
  inRings.flatMap((node) => (isAt(node, 'back') ? [{ do: 'returned', nodeId: node.nodeId, error: stillNew(node.stage) }] : []))

function updateMessages(facts: RolloutFacts): RolloutAction[] {
  return facts.nodes.flatMap((node): RolloutAction[] => {
    if (!isWatched(node)) return []
    const message = messageOf(node.stage, facts)
    return message === node.stage.message ? [] : [{ do: 'message', nodeId: node.nodeId, message }]
  })
}

/** No node begins while others are in progress; they are proven together. */
function watch(underWay: readonly RolloutNode[], facts: RolloutFacts): RolloutAction[] {
  const { wellMs, spec } = facts
  const proving = underWay.filter(isWatched)
  const isWell = proving.length === underWay.length && proving.every(({ stage }) => stage.left.length === 0)
  if (!isWell) return [...recordWait(facts), ...(wellMs === null ? [] : [{ do: 'watch', isWell } as const])]
  if ((wellMs ?? 0) < spec.minHealthyMs) return [...recordWait(facts), ...(wellMs === null ? [{ do: 'watch', isWell } as const] : [])]
  const proven = proving.map(({ nodeId, stage }): RolloutAction => ({ do: 'prove', nodeId, message: stage.notes.join('; ') }))
  return [...proven, ...(wellMs === null ? [] : [{ do: 'watch', isWell: false } as const])]
}

/** The number of replicas left to move; null while something else is waited for. */
function leftOf({ nodes, failure }: RolloutFacts): number | null {
  const inRings = nodes.filter((node) => node.ring !== null)
  const underWay = failure === null ? underWayOf(inRings) : nodes.filter((node) => node.isReachable && isAt(node, 'back'))
  if (underWay.some((node) => isAt(node, 'begun'))) return null
  const left = underWay.reduce((sum, { stage }) => sum + ('left' in stage ? stage.left.length : 0), 0)
  return left === 0 ? null : left
}

function recordWait(facts: RolloutFacts): RolloutAction[] {
  const left = leftOf(facts)
  return left === (facts.waits?.left ?? null) ? [] : [{ do: 'wait', left }]
}

/** The number of replicas left to move has not changed for too long. */
const isOverdue = (facts: RolloutFacts): boolean =>
  facts.waits !== null && facts.waits.ms >= maxWaitMs && facts.waits.left === leftOf(facts)

function beginNext(inRings: readonly RolloutNode[], facts: RolloutFacts): RolloutAction[] {
  const isProven = inRings.some((node) => isAt(node, 'upgraded'))
  const next = inRings.filter((node) => node.isReachable && isAt(node, 'waiting'))
  if (next.length === 0) return isProven || inRings.every(isOver) ? end(inRings, isProven) : []
  if (facts.isPaused) return []
  const ring = Math.min(...next.map((node) => node.ring ?? facts.rings))
  // Until a node is proven, the next nodes are canaries, whatever their ring.
  const atOnce = isProven ? facts.spec.maxParallel : facts.spec.canary
  const beginning = next.filter((node) => node.ring === ring).slice(0, atOnce)
  const entered: RolloutAction[] = ring > facts.ring ? [{ do: 'enter', ring }] : []
  return [...entered, ...beginning.map(({ nodeId }): RolloutAction => ({ do: 'begin', nodeId }))]
}

/** Absent nodes are not waited for: they get the proven version when they return. */
function end(inRings: readonly RolloutNode[], isProven: boolean): RolloutAction[] {
  const left = inRings.flatMap((node): RolloutAction[] => {
    if (isAt(node, 'waiting')) return [{ do: 'begin', nodeId: node.nodeId }]
    if (!isAt(node, 'proving')) return []
    const message = ['the node went offline before its replicas were confirmed healthy', ...node.stage.notes].join('; ')
    return [{ do: 'prove', nodeId: node.nodeId, message }]
  })
  return [...left, { do: 'end', end: isProven ? 'succeeded' : 'cancelled' }]
}

/**
 * Rolls back: no node begins, and upgraded nodes return to the previous version. Ends when no node has anything left to do; an
 * absent node returns to the previous version later and delays nothing.
 */
function rollBack(facts: RolloutFacts, failure: Failure, own: (node: RolloutNode) => Failure | null): RolloutAction[] {
  const isLate = isOverdue(facts)
  const actions = facts.nodes.flatMap((node) => rollBackNode(node, { failure, own: own(node), isLate }))
  const isEnded = facts.nodes.every(
    (node) => isOver(node) || (isAt(node, 'upgraded') && !node.canReturn) || (isAt(node, 'returning') && !node.isReachable),
  )
  return isEnded ? [...actions, { do: 'end', end: 'failed' }] : [...actions, ...recordWait(facts)]
}

/** `own`: the failure on this node; `isLate`: replicas of the new version are not waited for any longer. */
type RollbackCause = Readonly<{ failure: Failure; own: Failure | null; isLate: boolean }>

function rollBackNode(node: RolloutNode, { failure, own, isLate }: RollbackCause): RolloutAction[] {
  const { nodeId, stage } = node
  switch (stage.state) {
    case 'waiting':
      return [{ do: 'withdraw', nodeId }]
    case 'begun':
      return stage.cancelRequested ? [] : [{ do: 'cancel', nodeId }]
    case 'proving': {
      if (node.canReturn) return [{ do: 'return', nodeId, error: own?.message ?? rolledBack(failure) }]
      const message = `${own?.message ?? failure.message}; the node stays on the new version, because its previous version is unknown`
      return [{ do: 'fail', nodeId, failure: { ...(own ?? failure), message } }]
    }
    case 'upgraded':
      return node.canReturn ? [{ do: 'return', nodeId, error: rolledBack(failure) }] : []
    case 'back':
      // An absent node has its version; its replicas are moved when it returns.
      return stage.left.length === 0 || isLate || !node.isReachable ? [{ do: 'returned', nodeId, error: stillNew(stage) }] : []
    case 'failed':
    case 'returning':
    case 'settled':
      return []
    default:
      return unreachable(stage)
  }
}

const isOver = (node: RolloutNode): boolean => isAt(node, 'settled') || isAt(node, 'failed')

const isAt = <State extends RolloutStage['state']>(node: RolloutNode, state: State): node is At<State> => node.stage.state === state

function failureAt({ stage, isReachable }: RolloutNode, isLate: boolean): Failure | null {
  if (stage.state === 'failed') return stage.failure
  if (stage.state !== 'proving' || stage.cancelRequested) return null
  if (stage.trouble !== null) return failureOfTrouble(stage.trouble)
  return isLate && isReachable && stage.left.length > 0 ? notMoved(stage, maxWaitMs) : null
}

/** True while a present node is waited for: then the next step may depend on time only. */
export const isUnderWay = ({ nodes }: RolloutFacts): boolean =>
  nodes.some((node) => node.isReachable && node.ring !== null && (isAt(node, 'begun') || isAt(node, 'proving') || isAt(node, 'waiting')))

type Proving = Extract<RolloutStage, { state: 'proving' }>
type Back = Extract<RolloutStage, { state: 'back' }>
type FailedNode = Readonly<{ node: RolloutNode; failure: Failure }>

function failureOfTrouble(trouble: Trouble): Failure {
  const { model } = trouble
  switch (trouble.kind) {
    case 'load':
      return { ...trouble.failure, message: `${model} failed to start on the new version: ${trouble.failure.message}` }
    case 'check':
      return {
        code: 'internal',
        retry: 'never',
        message: `${model} started on the new version but failed its check`,
      }
    case 'exit': {
      const { code, message } = failureOfExit(trouble.exit)
      return { code, retry: 'never', message: `${model} exited on the new version: ${message}` }
    }
    default:
      return unreachable(trouble)
  }
}

const notMoved = ({ left, notes }: Proving, afterMs: number): Failure => ({
  code: 'timeout',
  retry: 'never',
  message: withNotes(
    `${formatReplicas(left)} not moved to the new version, and nothing has changed for ${Math.round(afterMs / 60_000)} minutes`,
    notes,
  ),
})

const failureOfRing = ({ node, failure }: FailedNode): Failure => ({
  code: failure.code,
  retry: 'never',
  message: `ring ${node.ring} failed on ${node.name}: ${failure.message}`.slice(0, 8192),
})

const rolledBack = ({ message }: Failure): string => `rolled back: ${message}`.slice(0, 8192)

/** The error of the node at the end of the rollback. */
const stillNew = ({ left, notes, error }: Back): string =>
  withNotes(left.length === 0 ? error : `${error}; ${formatReplicas(left)} still on the new version`, notes).slice(0, 8192)

const cancelledMessage = ({ left, notes }: Proving): string =>
  withNotes(
    left.length === 0 ? 'cancelled before its replicas were confirmed healthy' : `cancelled; ${formatReplicas(left)} still to be moved`,
    notes,
  )

function messageOf({ left, notes }: Proving, { spec }: RolloutFacts): string {
  const what = left.length === 0 ? `watching its replicas for ${seconds(spec.minHealthyMs)}` : `${formatReplicas(left)} still to be moved`
  return withNotes(`installed; ${what}`, notes)
}

const withNotes = (message: string, notes: readonly string[]): string => (notes.length === 0 ? message : `${message} (${notes.join('; ')})`)

/** `2 replicas (small, tiny) are` */
function formatReplicas(left: readonly string[]): string {
  const models = [...new Set(left)].toSorted().join(', ')
  return left.length === 1 ? `1 replica (${models}) is` : `${left.length} replicas (${models}) are`
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`

// The facts, from the rows of a rollout.

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
