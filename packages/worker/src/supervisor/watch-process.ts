// A process that an earlier run of this worker started: not our child, so nobody tells when it ends. It is looked at often.
import { isAlive, type Clock, type ProcessIdentity } from '@muster/host'
import type { LeadProcess } from './spawn-process.ts'

const pollMs = 200

export function watchProcess(identity: ProcessIdentity, { clock }: { clock: Clock }): LeadProcess {
  let hasExited = !isAlive(identity)
  const untilExit = async (): Promise<{ code: null; signal: null }> => {
    while (!hasExited) {
      await clock.sleep(pollMs)
      hasExited = !isAlive(identity)
    }
    return { code: null, signal: null }
  }
  return { identity, exited: untilExit(), hasExited: () => (hasExited ||= !isAlive(identity)) }
}
