// Every rule that a run is held against.
import { differingDisks, lostLastSubmissions, missingSubmissions, unaskedOperations, unsettledIntents } from './check-end.ts'
import { activatedTwice, changedSettled, contradictedStatuses, falseSuccesses } from './check-run.ts'
import type { Observation, Violation } from './observation.ts'

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

export const check = (observed: Observation): Violation[] => rules.flatMap((rule) => rule(observed))
