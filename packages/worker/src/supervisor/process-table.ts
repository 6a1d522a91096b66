// Finds the processes of this worker in /proc. Processes carry worker and replica as markers in their environment, which
// children inherit, so that a process is found without its record, and a foreign process is never taken for one of a replica.
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { identifyProcess, type ProcessIdentity } from '@muster/host'

export const replicaMarker = 'MUSTER_REPLICA_ID'
export const workerMarker = 'MUSTER_WORKER_ID'

export type FoundProcess = Readonly<{
  identity: ProcessIdentity
  group: number
  /** Null: it is in the requested group and has no marker. */
  replicaId: string | null
}>

/** Reading a hundred small files of /proc synchronously takes a few milliseconds, a tenth of the asynchronous cost. */
const atATime = 100

export type ProcessScan = Readonly<{
  processes: readonly FoundProcess[]
  /** Processes in the middle of an exec: their environment cannot be read, and they may belong to a replica. */
  unreadable: readonly ProcessIdentity[]
}>

/**
 * Every process that was started for a replica of this worker, at any depth below a backend, and every member of the given
 * process group. Empty where there is no /proc.
 */
export async function findProcesses(workerId: string, group: number | null = null): Promise<ProcessScan> {
  const [processes, unreadable]: [FoundProcess[], ProcessIdentity[]] = [[], []]
  const pids = process.platform === 'linux' ? readdirSync('/proc').filter((name) => /^\d+$/.test(name)) : []
  for (const [at, name] of pids.entries()) {
    if (at % atATime === atATime - 1) await nextTurn()
    const pid = Number(name)
    const environment = pid === process.pid ? null : read(`/proc/${pid}/environ`)
    if (environment === '' && isProgram(pid)) unreadable.push(...present(identifyProcess(pid)))
    const replicaId = environment === null ? null : markerIn(environment, workerId)
    const itsGroup = replicaId === null && group === null ? null : groupOf(pid)
    if (itsGroup === null || (replicaId === null && itsGroup !== group)) continue
    processes.push(...present(identifyProcess(pid)).map((identity) => ({ identity, group: itsGroup, replicaId })))
  }
  return { processes, unreadable }
}

const present = (identity: ProcessIdentity | null): ProcessIdentity[] => (identity === null ? [] : [identity])

/** True when its marker names another replica or another worker. Programs that rename themselves may have lost their marker. */
export function belongsToOther(pid: number, { workerId, replicaId }: { workerId: string; replicaId: string }): boolean {
  const environment = read(`/proc/${pid}/environ`)
  if (environment === null || !environment.includes(`${workerMarker}=`)) return false
  return markerIn(environment, workerId) !== replicaId
}

function markerIn(environment: string, workerId: string): string | null {
  // One search rules out most processes of a machine.
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

/** The fields of /proc/<pid>/stat from the state on: the program's name before it is in brackets and may contain anything. */
function fieldsOf(pid: number): readonly string[] {
  const stat = read(`/proc/${pid}/stat`)
  return stat === null ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null // The process has ended, or belongs to another user.
  }
}

type Listener = 'ours' | 'foreign' | 'none'
type ReplicaProcess = Readonly<{ group: number; replicaId: string; workerId: string }>

const listening = '0A'

/** Finds out which process listens on a port: another program may have taken it before the replica's process, or since. */
export async function findListener(port: number, owner: ReplicaProcess): Promise<Listener> {
  if (process.platform !== 'linux') return 'ours'
  const inodes = await listeningInodes(port)
  if (inodes.size === 0) return 'none'
  // Nearly always it is the leader itself; the whole table is scanned only otherwise.
  if (await holdsOne(owner.group, inodes)) return 'ours'
  const { processes } = await findProcesses(owner.workerId, owner.group)
  const own = processes.filter(({ replicaId, group }) => replicaId === owner.replicaId || group === owner.group)
  for (const { identity } of own) if (await holdsOne(identity.pid, inodes)) return 'ours'
  return 'foreign'
}

/** On any address of this machine: a listener on all addresses has loopback too. */
async function listeningInodes(port: number): Promise<Set<string>> {
  const wanted = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'utf8').catch(() => '')))
  const sockets = tables.flatMap((table) => table.split('\n').slice(1)).map((line) => line.trim().split(/\s+/))
  return new Set(
    sockets.filter(([, local, , state]) => state === listening && local?.endsWith(wanted)).map((fields) => `socket:[${fields[9] ?? ''}]`),
  )
}

async function holdsOne(pid: number, inodes: ReadonlySet<string>): Promise<boolean> {
  const descriptors = await readdir(`/proc/${pid}/fd`).catch(() => [])
  for (const descriptor of descriptors) {
    const target = await readlink(`/proc/${pid}/fd/${descriptor}`).catch(() => '')
    if (inodes.has(target)) return true
  }
  return false
}
