// Puts the progress of work on the bus, for every operation that shares it; without one it is silent.
import { progress, type BackendName, type OperationId } from '@muster/protocol'
import { createProgressReporter, type ProgressReporter, type ProgressState } from './progress-reporter.ts'
import type { ExecutorDeps } from './run-to-its-end.ts'
import type { Work } from './work.ts'

type Deps = Pick<ExecutorDeps, 'ledger' | 'announcer' | 'clock' | 'log'>

/** Makes the reporter of a piece of work. */
export function createProgressTeller(deps: Deps): (work: Work) => ProgressReporter {
  // Also after a restart higher than whatever was sent before: receivers drop what is not.
  let seq = deps.ledger.boot() * 2 ** 32
  const nextSeq = (): number => (seq += 1)
  return (work) => createProgressReporter({ tell: (state) => tell(work, state, deps), nextSeq, clock: deps.clock })
}

function tell(work: Work, state: ProgressState, deps: Deps): void {
  tellProgress({ opIds: work.opIds, epoch: work.epoch, backend: work.order.backend }, state, deps)
}

export type About = Readonly<{ opIds: Iterable<OperationId>; epoch: number | null; backend: BackendName }>

export function tellProgress(work: About, state: ProgressState, { announcer, log }: Pick<Deps, 'announcer' | 'log'>): void {
  const { phase, fileName, current, total, percentage, seq } = state
  const voice = announcer.voice()
  if (voice === null || !voice.bus.isConnected()) return
  for (const op_id of work.opIds) {
    try {
      const { bus, nodeId } = voice
      const epoch = work.epoch === null ? {} : { epoch: work.epoch }
      const about = { op_id, node_id: nodeId, backend: work.backend, ...epoch }
      bus.publish(progress, { node: nodeId, op: op_id }, { ...about, file_name: fileName, current, total, percentage, phase, seq })
    } catch (error) {
      log.error('progress not sent', { op_id, error })
    }
  }
}
