// What of this worker's runs on this machine, as /proc tells it: processes carry the worker and the replica in their
// environment, which their children inherit, so that none is lost when a record is, and no stranger is taken for ours.
import { readdirSync, readFileSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { identifyProcess, type ProcessIdentity } from '@muster/host'

export const replicaMarker = 'MUSTER_REPLICA_ID'
export const workerMarker = 'MUSTER_WORKER_ID'

export type FoundProcess = Readonly<{
  identity: ProcessIdentity
  group: number
  /** Null: it is in a group that was asked for, and carries no mark. */
  replicaId: string | null
}>

/** Reading a hundred small files of /proc takes a few milliseconds, a tenth of what the same costs in the background. */
const atATime = 100

export type Found = Readonly<{
  processes: readonly FoundProcess[]
  /** Nothing can be read of a process in the moment in which it becomes another program: it may be one of ours. */
  unsure: readonly ProcessIdentity[]
}>

/**
 * Every process, however deep below a backend, that was started for a replica of this worker; and whoever else is in this
 * process group. None where there is no /proc.
 */
export async function findProcesses(workerId: string, group: number | null = null): Promise<Found> {
  const [processes, unsure]: [FoundProcess[], ProcessIdentity[]] = [[], []]
  const pids = process.platform === 'linux' ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : []
  for (const [at, name] of pids.entries()) {
    if (at % atATime === atATime - 1) await nextTurn()
    const pid = Number(name)
    const environment = pid === process.pid ? null : read(`/proc/${pid}/environ`)
    if (environment === '' && isProgram(pid)) unsure.push(...present(identifyProcess(pid)))
    const replicaId = environment === null ? null : markerIn(environment, workerId)
    const itsGroup = replicaId === null && group === null ? null : groupOf(pid)
    if (itsGroup === null || (replicaId === null && itsGroup !== group)) continue
    processes.push(...present(identifyProcess(pid)).map((identity) => ({ identity, group: itsGroup, replicaId })))
  }
  return { processes, unsure }
}

const present = (identity: ProcessIdentity | null): ProcessIdentity[] => (identity === null ? [] : [identity])

/** Whether it says that it was started for another replica, or by another worker. Programs that rename themselves may have lost their mark. */
export function isAnothers(pid: number, { workerId, replicaId }: { workerId: string; replicaId: string }): boolean {
  const environment = read(`/proc/${pid}/environ`)
  if (environment === null || !environment.includes(`${workerMarker}=`)) return false
  return markerIn(environment, workerId) !== replicaId
}

function markerIn(environment: string, workerId: string): string | null {
  // Most processes of a machine are told apart by one search.
  if (!environment.includes(`${workerMarker}=${workerId}\0`)) return null
  const entry = environment.split('\0').find((each) => each.startsWith(`${replicaMarker}=`))
  return entry?.slice(replicaMarker.length + 1) ?? null
}

function groupOf(pid: number): number | null {
  const group = fieldsOf(pid)[2]
  return group === undefined ? null : Number(group)
}

const kernelThread = 0x0020_0000

const isProgram = (pid: number): boolean => (Number(fieldsOf(pid)[6] ?? kernelThread) & kernelThread) === 0

/** Of /proc/<pid>/stat, from the state on: the program's name before it stands in brackets and may hold anything. */
function fieldsOf(pid: number): readonly string[] {
  const stat = read(`/proc/${pid}/stat`)
  return stat === null ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null // It ended while we were looking, or is somebody else's.
  }
}
