// What of this worker's runs on this machine, as /proc tells it: processes carry the worker and the replica in their
// environment, which their children inherit, so that none is lost when a record is, and no stranger is taken for ours.
import { readdir, readFile } from 'node:fs/promises'
import { identifyProcess, type ProcessIdentity } from '@muster/host'

export const replicaMarker = 'MUSTER_REPLICA_ID'
export const workerMarker = 'MUSTER_WORKER_ID'

export type MarkedProcess = Readonly<{ identity: ProcessIdentity; group: number; replicaId: string }>

/** Every process, however deep below a backend, that was started for a replica of this worker. Empty where there is no /proc. */
export async function findMarked(workerId: string): Promise<MarkedProcess[]> {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const found: MarkedProcess[] = []
  for (const pid of pids) {
    if (pid === process.pid) continue
    const replicaId = await markerOf(pid, workerId)
    if (replicaId === null) continue
    const identity = identifyProcess(pid)
    const group = await groupOf(pid)
    if (identity !== null && group !== null) found.push({ identity, group, replicaId })
  }
  return found
}

/** The members of a process group, whatever their environment says. */
export async function findGroup(group: number): Promise<ProcessIdentity[]> {
  if (process.platform !== 'linux') return []
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const found: ProcessIdentity[] = []
  for (const pid of pids) {
    if ((await groupOf(pid)) !== group) continue
    const identity = identifyProcess(pid)
    if (identity !== null) found.push(identity)
  }
  return found
}

/** The replica that it was started for; null when it is not this worker's, or its environment is not for us to read. */
export async function markerOf(pid: number, workerId: string): Promise<string | null> {
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
  // Most processes of a machine are told apart by one search.
  if (!environment.includes(`${workerMarker}=${workerId}\0`)) return null
  const entry = environment.split('\0').find((each) => each.startsWith(`${replicaMarker}=`))
  return entry?.slice(replicaMarker.length + 1) ?? null
}

async function groupOf(pid: number): Promise<number | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  if (stat === null) return null
  // The program's name stands in brackets and may hold anything; count from its end.
  const group = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2]
  return group === undefined ? null : Number(group)
}
