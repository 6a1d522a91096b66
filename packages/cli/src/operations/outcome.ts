// Pure: when an operation has been followed long enough, and what exit code that makes.
import type { OperationState, OperationView } from '@muster/protocol'

/** `settled`: until every node has its outcome. `background`: until nothing more happens that is worth looking at. */
export type FollowUntil = 'settled' | 'background'

const isGoingOn = (state: OperationState): boolean => state === 'running' || state === 'background'

export const isOver = ({ state }: Pick<OperationView, 'state'>, until: FollowUntil): boolean =>
  until === 'settled' ? !isGoingOn(state) : state !== 'running'

/** The worst of all: failed before still going on before done. Null: nothing is known of it. */
export function exitCodeOfStates(states: readonly (OperationState | null)[]): 0 | 1 | 3 {
  if (states.some((state) => state === 'failed' || state === 'cancelled')) return 1
  return states.some((state) => state === null || isGoingOn(state)) ? 3 : 0
}
