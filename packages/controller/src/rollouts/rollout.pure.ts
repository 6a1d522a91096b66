// Decides the next step of a rollout. Pure: it is decided again whenever something may have changed. One ring is in progress at a
// time; a node is done when its replicas have moved to the new version and stay healthy.
import { type Failure, unreachable } from '@muster/protocol'
import { failureOfExit } from '../loads/loads.pure.ts'
import type { RolloutAction } from '../store/rollouts.ts'
import type { RolloutFacts, RolloutNode, RolloutStage, Trouble } from './facts.pure.ts'

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
    `${replicas(left)} not moved to the new version, and nothing has changed for ${Math.round(afterMs / 60_000)} minutes`,
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
  withNotes(left.length === 0 ? error : `${error}; ${replicas(left)} still on the new version`, notes).slice(0, 8192)

const cancelledMessage = ({ left, notes }: Proving): string =>
  withNotes(
    left.length === 0 ? 'cancelled before its replicas were confirmed healthy' : `cancelled; ${replicas(left)} still to be moved`,
    notes,
  )

function messageOf({ left, notes }: Proving, { spec }: RolloutFacts): string {
  const what = left.length === 0 ? `watching its replicas for ${seconds(spec.minHealthyMs)}` : `${replicas(left)} still to be moved`
  return withNotes(`installed; ${what}`, notes)
}

const withNotes = (message: string, notes: readonly string[]): string => (notes.length === 0 ? message : `${message} (${notes.join('; ')})`)

/** `2 replicas (small, tiny) are` */
function replicas(left: readonly string[]): string {
  const models = [...new Set(left)].toSorted().join(', ')
  return left.length === 1 ? `1 replica (${models}) is` : `${left.length} replicas (${models}) are`
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`
