// Ends a replica's processes: the group asked first, then killed, with whatever of it hid in another group. Resolves
// only when none is left, however long that takes: a slot whose process can't be killed is not free.
import { isAlive, type Clock, type Log, type ProcessIdentity } from '@muster/host'
import type { ReplicaId } from '@muster/protocol'
import type { Step } from '../operations/installer.ts'
import { findProcesses, type FoundProcess } from './find-processes.ts'

export type StopTarget = Readonly<{ replicaId: ReplicaId; /** Null: only what carries its mark. */ leader: ProcessIdentity | null }>
export type StopDeps = Readonly<{ workerId: string; clock: Clock; log: Log; step: Step; onStuck?: () => void }>

const pollMs = 25
const slowPollMs = 1_000
/** A killed process is gone within milliseconds unless the kernel holds it. */
const stuckAfterMs = 5_000
/** A program is started within milliseconds; one that has no environment at all never shows one. */
const unsureMs = 500

/** `graceMs` 0: killed at once. */
export async function stopProcess(target: StopTarget, { graceMs }: { graceMs: number }, deps: StopDeps): Promise<void> {
  const { clock } = deps
  if (graceMs > 0) {
    const deadline = clock.monotonic() + graceMs
    await signalAll(target, 'SIGTERM', deps)
    await deps.step('W.stop.after_term')
    // Its leader may be gone while others of the group still tidy up: they have the same time.
    const isLeft = async (): Promise<boolean> =>
      (target.leader !== null && isAlive(target.leader)) || (await look(target, deps)).left.length > 0
    while (clock.monotonic() < deadline && (await isLeft())) await clock.sleep(pollMs)
  }
  await killUntilGone(target, deps)
  await deps.step('W.stop.after_kill')
}

async function killUntilGone(target: StopTarget, deps: StopDeps): Promise<void> {
  const { clock, log } = deps
  const begun = clock.monotonic()
  let isStuck = false
  for (;;) {
    const { left, isSure } = await look(target, deps)
    if (left.length === 0 && (isSure || clock.monotonic() - begun > unsureMs)) break
    // Again each time: what was forked between looking and killing is seen in the next round.
    if (left.length > 0) await signalAll(target, 'SIGKILL', deps)
    if (!isStuck && clock.monotonic() - begun > stuckAfterMs) {
      isStuck = true
      deps.onStuck?.()
      log.error('a process is stuck: it was killed and does not end; its slot stays taken until it does', {
        replica_id: target.replicaId,
        pids: left.map(({ pid }) => pid),
      })
    }
    await clock.sleep(isStuck ? slowPollMs : pollMs)
  }
  if (isStuck) log.warn('a process that was stuck is gone', { replica_id: target.replicaId })
}

type Left = ProcessIdentity & Readonly<{ isInGroup: boolean }>

/** Whatever runs for this replica. A group counts only while its leader, or a marked member, proves that it is ours. */
async function look(
  { leader, replicaId }: StopTarget,
  { workerId }: Pick<StopDeps, 'workerId'>,
): Promise<{ left: Left[]; isSure: boolean }> {
  const { processes, unsure } = await findProcesses(workerId, leader?.pid)
  const isMarked = (each: FoundProcess): boolean => each.replicaId === replicaId
  const isInGroup = (each: FoundProcess): boolean => leader !== null && each.group === leader.pid
  const isOurGroup = leader !== null && (isAlive(leader) || processes.some((each) => isMarked(each) && isInGroup(each)))
  const seen = processes
    .filter((each) => isMarked(each) || (isOurGroup && isInGroup(each)))
    .map((each) => ({ ...each.identity, isInGroup: isInGroup(each) }))
  // Where there is no /proc the leader is all that is known.
  const isUnseen = leader !== null && isAlive(leader) && !seen.some(({ pid }) => pid === leader.pid)
  const left = isUnseen ? [...seen, { ...leader, isInGroup: true }] : seen
  return { left, isSure: unsure.every((each) => leader !== null && isOlder(each, leader)) }
}

/** Start times are ticks since the boot, in text. */
const isOlder = (a: ProcessIdentity, b: ProcessIdentity): boolean => Number(a.started) < Number(b.started)

async function signalAll(target: StopTarget, signal: 'SIGTERM' | 'SIGKILL', deps: StopDeps): Promise<void> {
  const { leader } = target
  const { left } = await look(target, deps)
  // One call reaches all of a group, also those that are forked meanwhile.
  if (leader !== null && left.some(({ isInGroup }) => isInGroup)) send(-leader.pid, signal)
  for (const each of left) if (!each.isInGroup && isAlive(each)) send(each.pid, signal)
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // Nobody is left there.
  }
}
