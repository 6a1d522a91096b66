// Every rule that a run is held against.
import { differingDisks, lostLastSubmissions, missingSubmissions, unaskedOperations, unsettledIntents } from './check-end.ts'
import { activatedTwice, changedSettled, contradictedStatuses, falseSuccesses } from './check-run.ts'
import type { Observed, Violation } from './observed.ts'

const rules = [
  missingSubmissions,
  unaskedOperations,
  unsettledIntents,
  lostLastSubmissions,
  differingDisks,
  activatedTwice,
  changedSettled,
  falseSuccesses,
  contradictedStatuses,
]

export const check = (observed: Observed): Violation[] => rules.flatMap((rule) => rule(observed))
