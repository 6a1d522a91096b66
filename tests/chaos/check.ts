// Every rule that a run is held against.
import { differingDisks, lostLastWishes, missingWishes, unaskedOperations, unsettledIntents } from './check-end.ts'
import { activatedTwice, changedSettled, contradictedStatuses, falseSuccesses } from './check-run.ts'
import type { Observed, Violation } from './observed.ts'

const rules = [
  missingWishes,
  unaskedOperations,
  unsettledIntents,
  lostLastWishes,
  differingDisks,
  activatedTwice,
  changedSettled,
  falseSuccesses,
  contradictedStatuses,
]

export const check = (observed: Observed): Violation[] => rules.flatMap((rule) => rule(observed))
