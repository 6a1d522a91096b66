// What a rollout says, of its nodes and of what failed. Pure.
import { unreachable, type Failure } from '@muster/protocol'
import { failureOfExit } from '../loads/loads.pure.ts'
import type { RolloutFacts, RolloutNode, RolloutStand, Trouble } from '../store/rollout-facts.ts'

type Proving = Extract<RolloutStand, { state: 'proving' }>
type Back = Extract<RolloutStand, { state: 'back' }>
export type Failed = Readonly<{ node: RolloutNode; failure: Failure }>

export function failureOfTrouble(trouble: Trouble): Failure {
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

export const notMoved = ({ left, notes }: Proving, afterMs: number): Failure => ({
  code: 'timeout',
  retry: 'never',
  message: withNotes(
    `${replicas(left)} not moved to the new version, and nothing has changed for ${Math.round(afterMs / 60_000)} minutes`,
    notes,
  ),
})

export const stopping = ({ node, failure }: Failed): Failure => ({
  code: failure.code,
  retry: 'never',
  message: `ring ${node.ring} failed on ${node.name}: ${failure.message}`.slice(0, 8192),
})

export const rolledBack = ({ message }: Failure): string => `rolled back: ${message}`.slice(0, 8192)

/** What it ends with when nothing is waited for any longer. */
export const stillNew = ({ left, notes, error }: Back): string =>
  withNotes(left.length === 0 ? error : `${error}; ${replicas(left)} still on the new version`, notes).slice(0, 8192)

export const calledOff = ({ left, notes }: Proving): string =>
  withNotes(
    left.length === 0 ? 'cancelled before its replicas were seen to be well' : `cancelled; ${replicas(left)} not yet moved, and will be`,
    notes,
  )

export function messageOf({ left, notes }: Proving, { spec }: RolloutFacts): string {
  const what =
    left.length === 0 ? `its replicas are watched for ${seconds(spec.minHealthyMs)}` : `${replicas(left)} still to be moved to it`
  return withNotes(`installed; ${what}`, notes)
}

const withNotes = (message: string, notes: readonly string[]): string => (notes.length === 0 ? message : `${message} (${notes.join('; ')})`)

/** `2 replicas (small, tiny) are` */
function replicas(left: readonly string[]): string {
  const models = [...new Set(left)].toSorted().join(', ')
  return left.length === 1 ? `1 replica (${models}) is` : `${left.length} replicas (${models}) are`
}

const seconds = (ms: number): string => `${Math.round(ms / 100) / 10} s`
