// Every rule that a run is held against.
import { cancelledAndDone, openModelOperations, retriedTooMuch } from './check-changes.ts'
import { differingDisks, lostLastSubmissions, missingSubmissions, unaskedOperations, unsettledIntents } from './check-end.ts'
import { contradictedBackends, contradictedReplicas, differingProcesses, lostModels } from './check-fleet.ts'
import { activatedTwice, changedSettled, contradictedStatuses, falseSuccesses } from './check-run.ts'
import type { Observation, Violation } from './observation.ts'

const rules = [
  missingSubmissions,
  openModelOperations,
  unaskedOperations,
  unsettledIntents,
  lostLastSubmissions,
  lostModels,
  differingDisks,
  differingProcesses,
  activatedTwice,
  changedSettled,
  cancelledAndDone,
  retriedTooMuch,
  falseSuccesses,
  contradictedStatuses,
  contradictedReplicas,
  contradictedBackends,
]

export const check = (observed: Observation): Violation[] => rules.flatMap((rule) => rule(observed))
