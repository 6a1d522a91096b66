// What a rollout does next. Pure: it is asked again whenever something may be different, and remembers nothing. One ring is
// under way at a time; what a node is waited for is that its replicas have moved to the new version and stay well.
import { unreachable, type Failure } from '@muster/protocol'
import { failureOfExit } from '../loads/decide.ts'
import type { RolloutAction, RolloutFacts, RolloutNode, RolloutStand, Trouble } from '../store/rollout-facts.ts'

type At<State extends RolloutStand['state']> = RolloutNode & { readonly stand: Extract<RolloutStand, { state: State }> }
type Failed = Readonly<{ node: RolloutNode; failure: Failure }>

export function decideRollout(facts: RolloutFacts): RolloutAction[] {
  if (facts.failure !== null) return goBack(facts, facts.failure)
  const failed = facts.nodes.flatMap((node): Failed[] => {
    const failure = node.ring === null ? null : failureAt(node)
    return failure === null ? [] : [{ node, failure }]
  })
  const [first] = failed
  if (first === undefined) return goOn(facts)
  const failure = stopping(first)
  return [{ do: 'stop', failure }, ...goBack(facts, failure)]
}

function goOn(facts: RolloutFacts): RolloutAction[] {
  const inRings = facts.nodes.filter((node) => node.ring !== null)
  const underWay = inRings.filter((node) => node.isHere && (isAt(node, 'begun') || isAt(node, 'proving')))
  const beside = [...recreations(facts), ...tellings(facts)]
  return [...beside, ...(underWay.length > 0 ? watch(underWay, facts) : goFurther(inRings, facts))]
}

/** A node whose disk is too small for two versions gives up the old one first. */
const recreations = ({ nodes }: RolloutFacts): RolloutAction[] =>
  nodes.filter((node) => isAt(node, 'begun') && node.stand.isOutOfDisk).map(({ nodeId }) => ({ do: 'recreate', nodeId }))

function tellings(facts: RolloutFacts): RolloutAction[] {
  return facts.nodes.flatMap((node): RolloutAction[] => {
    if (!isAt(node, 'proving')) return []
    const message = messageOf(node, facts)
    return message === node.stand.message ? [] : [{ do: 'tell', nodeId: node.nodeId, message }]
  })
}

/** Nothing new begins while something is under way; all of it is proven together. */
function watch(underWay: readonly RolloutNode[], { wellMs, spec }: RolloutFacts): RolloutAction[] {
  const proving = underWay.filter((node) => isAt(node, 'proving'))
  const isWell = proving.length === underWay.length && proving.every(({ stand }) => stand.left === 0)
  if (!isWell) return wellMs === null ? [] : [{ do: 'watch', isWell }]
  if ((wellMs ?? 0) < spec.minHealthyMs) return wellMs === null ? [{ do: 'watch', isWell }] : []
  const proven = proving.map(({ nodeId, stand }): RolloutAction => ({ do: 'prove', nodeId, message: stand.notes.join('; ') }))
  return [...proven, ...(wellMs === null ? [] : [{ do: 'watch', isWell: false } as const])]
}

function goFurther(inRings: readonly RolloutNode[], facts: RolloutFacts): RolloutAction[] {
  const isProven = inRings.some((node) => isAt(node, 'upgraded'))
  const waiting = inRings.filter((node) => node.isHere && isAt(node, 'held'))
  if (waiting.length === 0) return isProven || inRings.every(isOver) ? end(inRings, isProven) : []
  const ring = Math.min(...waiting.map((node) => node.ring ?? facts.rings))
  // As long as nothing has proven itself the next ones are the canaries, whatever ring they are in.
  const atOnce = isProven ? facts.spec.maxParallel : facts.spec.canary
  const next = waiting.filter((node) => node.ring === ring).slice(0, atOnce)
  const entered: RolloutAction[] = ring > facts.ring ? [{ do: 'enter', ring }] : []
  return [...entered, ...next.map(({ nodeId }): RolloutAction => ({ do: 'begin', nodeId }))]
}

/** Those that are away are not waited for: they take the version that has proven itself when they return. */
function end(inRings: readonly RolloutNode[], isProven: boolean): RolloutAction[] {
  const left = inRings.flatMap((node): RolloutAction[] => {
    if (isAt(node, 'held')) return [{ do: 'begin', nodeId: node.nodeId }]
    if (!isAt(node, 'proving')) return []
    const message = ['it went away before its replicas were seen to be well', ...node.stand.notes].join('; ')
    return [{ do: 'prove', nodeId: node.nodeId, message }]
  })
  return [...left, { do: 'end', end: isProven ? 'succeeded' : 'cancelled' }]
}

/** Nothing new begins, and what has the new version gets the old one back. Over when nothing is left to be done anywhere. */
function goBack({ nodes }: RolloutFacts, failure: Failure): RolloutAction[] {
  const actions = nodes.flatMap((node) => goBackOn(node, failure))
  const isEnded = nodes.every((node) => isOver(node) || (isAt(node, 'upgraded') && !node.canReturn))
  return isEnded ? [...actions, { do: 'end', end: 'failed' }] : actions
}

function goBackOn(node: RolloutNode, failure: Failure): RolloutAction[] {
  const { nodeId, stand } = node
  switch (stand.state) {
    case 'held':
      return [{ do: 'withdraw', nodeId }]
    case 'begun':
      return stand.isCalledOff ? [] : [{ do: 'call_off', nodeId }]
    case 'proving': {
      const own = failureAt(node)
      if (node.canReturn) return [{ do: 'return', nodeId, error: own?.message ?? rolledBack(failure) }]
      const message = `${own?.message ?? failure.message}; it stays on the new version, as nobody knows which one it had before`
      return [{ do: 'fail', nodeId, failure: { ...(own ?? failure), message } }]
    }
    case 'upgraded':
      return node.canReturn ? [{ do: 'return', nodeId, error: rolledBack(failure) }] : []
    case 'back':
      // One that is away has what it should have; its processes are moved when it returns.
      return stand.left === 0 || !node.isHere ? [{ do: 'returned', nodeId, error: stand.error }] : []
    case 'failed':
    case 'returning':
    case 'settled':
      return []
    default:
      return unreachable(stand)
  }
}

const isOver = (node: RolloutNode): boolean => isAt(node, 'settled') || isAt(node, 'failed')

const isAt = <State extends RolloutStand['state']>(node: RolloutNode, state: State): node is At<State> => node.stand.state === state

function failureAt({ stand }: RolloutNode): Failure | null {
  if (stand.state === 'failed') return stand.failure
  return stand.state === 'proving' && stand.trouble !== null ? failureOfTrouble(stand.trouble) : null
}

function failureOfTrouble(trouble: Trouble): Failure {
  const { model } = trouble
  switch (trouble.kind) {
    case 'load':
      return { ...trouble.failure, message: `${model} did not come up on the new version: ${trouble.failure.message}` }
    case 'check':
      return {
        code: 'internal',
        retry: 'never',
        message: `${model} came up on the new version and did not answer when it was asked something`,
      }
    case 'exit': {
      const { code, message } = failureOfExit(trouble.exit)
      return { code, retry: 'never', message: `${model} exited on the new version: ${message}` }
    }
    default:
      return unreachable(trouble)
  }
}

const stopping = ({ node, failure }: Failed): Failure => ({
  code: failure.code,
  retry: 'never',
  message: `ring ${node.ring} failed on ${node.name}: ${failure.message}`.slice(0, 8192),
})

const rolledBack = ({ message }: Failure): string => `rolled back: ${message}`.slice(0, 8192)

function messageOf({ stand: { left, notes } }: At<'proving'>, { spec }: RolloutFacts): string {
  const what = left === 0 ? `its replicas are watched for ${seconds(spec.minHealthyMs)}` : `${replicas(left)} still to be moved to it`
  return `installed; ${what}${notes.length === 0 ? '' : ` (${notes.join('; ')})`}`
}

const replicas = (count: number): string => (count === 1 ? '1 replica is' : `${count} replicas are`)
const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`

/** Nodes that something is waited for, and that are here: as long as there are any, the time alone may change what is so. */
export const isUnderWay = ({ nodes }: RolloutFacts): boolean =>
  nodes.some((node) => node.isHere && node.ring !== null && (isAt(node, 'begun') || isAt(node, 'proving') || isAt(node, 'held')))
