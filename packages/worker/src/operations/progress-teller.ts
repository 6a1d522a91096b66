// Puts the progress of work on the bus, for every operation that shares it; without one it is silent.
import { progress } from '@muster/protocol'
import type { ProgressState } from './progress-reporter.ts'
import type { ExecutorDeps } from './run-to-its-end.ts'
import type { Work } from './work.ts'

export function createProgressTeller({
  ledger,
  announcer,
  log,
}: Pick<ExecutorDeps, 'ledger' | 'announcer' | 'log'>): (work: Work, state: ProgressState) => void {
  // Also after a restart higher than whatever was sent before: receivers drop what is not.
  let seq = ledger.boot() * 2 ** 32
  return (work, { phase, fileName, current, total, percentage }) => {
    const voice = announcer.voice()
    if (voice === null || !voice.bus.isConnected()) return
    for (const op_id of work.opIds) {
      try {
        const { bus, nodeId } = voice
        const epoch = work.epoch === null ? {} : { epoch: work.epoch }
        const about = { op_id, node_id: nodeId, backend: work.order.backend, ...epoch }
        seq += 1
        bus.publish(progress, { node: nodeId, op: op_id }, { ...about, file_name: fileName, current, total, percentage, phase, seq })
      } catch (error) {
        log.error('progress not sent', { op_id, error })
      }
    }
  }
}
