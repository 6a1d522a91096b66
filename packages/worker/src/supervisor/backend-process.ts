// Starts, watches, stops and finds backend processes. A process has no shell, a process group of its own, an allow-listed
// environment, and a log file that it writes directly, so that it outlives this worker. Its environment names its worker and
// replica, and children inherit these markers: a process is found in /proc without its record, and a foreign process is never
// taken for one of a replica.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { chmod, lstat, mkdir, mkdtemp, open, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve, sep } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Clock, identifyProcess, isAlive, type Log, type ProcessIdentity, type Step } from '@muster/host'
import { FleetError, type ReplicaId } from '@muster/protocol'
import type { BackendAddress, Launch } from '../drivers/driver.ts'

type ProcessExit = Readonly<{ code: number | null; signal: string | null }>

/** The leader of a replica's process group. */
export interface LeadProcess {
  readonly identity: ProcessIdentity
  /** Never rejects. Some of its children may still run. */
  readonly exited: Promise<ProcessExit>
  hasExited(): boolean
}

type SpawnPlan = Readonly<{
  launch: Launch
  /** The tree that it is started from; also its working directory. */
  directory: string
  logPath: string
  replicaId: ReplicaId
  workerId: string
  /** The worker's environment; a backend inherits the allow-listed part. */
  env: Readonly<Record<string, string | undefined>>
}>

/** Variables about programs, languages, time zones and GPUs; never a token, a key or a setting of Muster. */
const inherited =
  /^(?:PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|OMP_\w+|(?:CUDA|NVIDIA|ROCR|ROCM|HIP|HSA|ZE|SYCL|ONEAPI|VK|GGML)_\w+)$/
const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
const replicaMarker = 'MUSTER_REPLICA_ID'
const workerMarker = 'MUSTER_WORKER_ID'

export async function spawnProcess(plan: SpawnPlan): Promise<LeadProcess> {
  const [program, ...args] = plan.launch.argv
  const path = programIn(plan.directory, program)
  await using logFile = await open(plan.logPath, 'a', 0o600)
  const child = spawn(path, args, {
    cwd: plan.directory,
    env: environmentOf(plan),
    detached: true,
    shell: false,
    stdio: ['ignore', logFile.fd, logFile.fd],
  })
  let seen: ProcessExit | null = null
  const exited = new Promise<ProcessExit>((settle) => {
    child.once('exit', (code, signal) => settle((seen = { code, signal })))
    child.once('error', () => settle((seen = { code: null, signal: null })))
  })
  if (child.pid === undefined) {
    const reason = await new Promise<Error>((settle) => child.once('error', settle))
    throw notStarted(program, reason)
  }
  // A watched process alone does not keep the worker running.
  child.unref()
  const { pid } = child
  // Out of memory, the kernel kills an engine before the worker. Where this is not permitted, the default stays.
  await writeFile(`/proc/${pid}/oom_score_adj`, '500').catch(() => undefined)
  // For a process that has exited already any identity will do: `exited` has resolved, and no signal is sent.
  const identity = identifyProcess(pid) ?? { pid, started: 'ended', boot: '' }
  return { identity, exited, hasExited: () => seen !== null }
}

/** Drivers name a file inside the tree, or Node's own; no other program is started. */
function programIn(directory: string, program: string): string {
  if (program === process.execPath) return program
  const path = resolve(directory, program)
  if (path.startsWith(directory + sep)) return path
  throw new FleetError({ code: 'invalid', retry: 'never', message: `cannot start ${program}: it is not a file of the backend` })
}

function environmentOf({ launch, env, replicaId, workerId }: SpawnPlan): Record<string, string> {
  const own = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && inherited.test(entry[0]))
  return { PATH: defaultPath, ...Object.fromEntries(own), ...launch.env, [replicaMarker]: replicaId, [workerMarker]: workerId }
}

const notStarted = (program: string, cause: Error): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `cannot start ${program}: ${cause.message}` }, { cause })

const adoptedPollMs = 200

/** Polls a process that an earlier run of this worker started: it is no child of this one, so there is no exit event. */
export function watchProcess(identity: ProcessIdentity, { clock }: { clock: Clock }): LeadProcess {
  let hasExited = !isAlive(identity)
  const untilExit = async (): Promise<{ code: null; signal: null }> => {
    while (!hasExited) {
      await clock.sleep(adoptedPollMs)
      hasExited = !isAlive(identity)
    }
    return { code: null, signal: null }
  }
  return { identity, exited: untilExit(), hasExited: () => (hasExited ||= !isAlive(identity)) }
}

type StopTarget = Readonly<{ replicaId: ReplicaId; /** Null: only processes with its marker. */ leader: ProcessIdentity | null }>
type StopDeps = Readonly<{ workerId: string; clock: Clock; log: Log; step: Step }>

const pollMs = 25
const slowPollMs = 1_000
/** A killed process is gone within milliseconds unless the kernel blocks it. */
const stuckAfterMs = 5_000
/** An exec takes milliseconds; a process that has no environment at all never shows one. */
const unreadableMs = 500

/**
 * Terminates a replica's process group, then kills it and every marked process in other groups. Resolves only when none is
 * left, however long that takes: a slot whose process cannot be killed is not free. `graceMs` 0: killed at once.
 */
export async function stopProcess(target: StopTarget, { graceMs }: { graceMs: number }, deps: StopDeps): Promise<void> {
  const { clock } = deps
  if (graceMs > 0) {
    const deadline = clock.monotonic() + graceMs
    await signalAll(target, 'SIGTERM', deps)
    await deps.step('W.stop.after_term')
    // The leader may be gone while other members of the group still clean up: they have the same time.
    const isLeft = async (): Promise<boolean> =>
      (target.leader !== null && isAlive(target.leader)) || (await scan(target, deps)).left.length > 0
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
    const { left, isComplete } = await scan(target, deps)
    if (left.length === 0 && (isComplete || clock.monotonic() - begun > unreadableMs)) break
    // In every round: a process forked between scan and kill is found in the next one.
    if (left.length > 0) await signalAll(target, 'SIGKILL', deps)
    if (!isStuck && clock.monotonic() - begun > stuckAfterMs) {
      isStuck = true
      log.error('process stuck: it was killed and does not exit; its slot stays taken until it does', {
        replica_id: target.replicaId,
        pids: left.map(({ pid }) => pid),
      })
    }
    await clock.sleep(isStuck ? slowPollMs : pollMs)
  }
  if (isStuck) log.warn('stuck process exited', { replica_id: target.replicaId })
}

type LiveProcess = ProcessIdentity & Readonly<{ isInGroup: boolean }>

/** All processes of this replica. A group counts only while its leader or a marked member proves that it belongs to it. */
async function scan(
  { leader, replicaId }: StopTarget,
  { workerId }: Pick<StopDeps, 'workerId'>,
): Promise<{ left: LiveProcess[]; isComplete: boolean }> {
  const { processes, unreadable } = await findProcesses(workerId, leader?.pid)
  const isMarked = (each: FoundProcess): boolean => each.replicaId === replicaId
  const isInGroup = (each: FoundProcess): boolean => leader !== null && each.group === leader.pid
  const isOurGroup = leader !== null && (isAlive(leader) || processes.some((each) => isMarked(each) && isInGroup(each)))
  const seen = processes
    .filter((each) => isMarked(each) || (isOurGroup && isInGroup(each)))
    .map((each) => ({ ...each.identity, isInGroup: isInGroup(each) }))
  // Without /proc only the leader is known.
  const isUnseen = leader !== null && isAlive(leader) && !seen.some(({ pid }) => pid === leader.pid)
  const left = isUnseen ? [...seen, { ...leader, isInGroup: true }] : seen
  return { left, isComplete: unreadable.every((each) => leader !== null && isOlder(each, leader)) }
}

/** Start times are ticks since boot, as text. */
const isOlder = (a: ProcessIdentity, b: ProcessIdentity): boolean => Number(a.started) < Number(b.started)

async function signalAll(target: StopTarget, signal: 'SIGTERM' | 'SIGKILL', deps: StopDeps): Promise<void> {
  const { leader } = target
  const { left } = await scan(target, deps)
  // One call reaches the whole group, also processes that are forked meanwhile.
  if (leader !== null && left.some(({ isInGroup }) => isInGroup)) send(-leader.pid, signal)
  for (const each of left) if (!each.isInGroup && isAlive(each)) send(each.pid, signal)
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process is gone.
  }
}

type FoundProcess = Readonly<{
  identity: ProcessIdentity
  group: number
  /** Null: it is in the requested group and has no marker. */
  replicaId: string | null
}>

/** Reading a hundred small files of /proc synchronously takes a few milliseconds, a tenth of the asynchronous cost. */
const atATime = 100

type ProcessScan = Readonly<{
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
  const line = read(`/proc/${pid}/stat`)
  return line === null ? [] : line.slice(line.lastIndexOf(')') + 2).split(' ')
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

// The addresses that processes listen on: a free loopback port that no process of this worker had lately, or a unix socket in a
// private directory. The path of a socket has at most 108 bytes; when the data directory's path is too long, `run` in it is a
// symbolic link to a directory with a short path, which stays as long as processes may listen in it.

export type Addresses = Awaited<ReturnType<typeof openAddresses>>

/** The smallest limit of all supported systems, without the terminating zero. */
const longestPath = 103
const rememberedPorts = 256

export async function openAddresses({ place }: { place: string }) {
  const directory = await socketDirectory(place)
  const lately: number[] = []
  return {
    async choose(kind: BackendAddress['kind'], id: ReplicaId): Promise<BackendAddress> {
      if (kind === 'unix') {
        const path = join(directory, socketName(id))
        await rm(path, { force: true })
        return { kind, path }
      }
      let port = await freePort()
      while (lately.includes(port)) port = await freePort()
      lately.push(port)
      if (lately.length > rememberedPorts) lately.shift()
      return { kind, host: '127.0.0.1', port }
    },
    /** Removes the socket of a process. */
    async release(address: BackendAddress): Promise<void> {
      if (address.kind === 'unix') await rm(address.path, { force: true })
    },
  }
}

/** Short, and unique per replica. */
const socketName = (id: ReplicaId): string => `${createHash('sha256').update(id).digest('hex').slice(0, 16)}.sock`

async function socketDirectory(place: string): Promise<string> {
  if (Buffer.byteLength(join(place, socketName('any' as ReplicaId))) <= longestPath) {
    await mkdir(place, { recursive: true, mode: 0o700 })
    await chmod(place, 0o700)
    return place
  }
  const found = await lstat(place).catch(() => null)
  if (found?.isSymbolicLink() === true) {
    const target = await readlink(place)
    if (await isPrivate(target)) return target
  }
  await rm(place, { recursive: true, force: true })
  const made = await mkdtemp(join(shortParent(), 'muster-run-'))
  await symlink(made, place)
  return made
}

/** Owned by this user and closed to others: /tmp is shared. */
async function isPrivate(directory: string): Promise<boolean> {
  const found = await stat(directory).catch(() => null)
  return found?.isDirectory() === true && found.uid === process.getuid?.() && (found.mode & 0o777) === 0o700
}

const shortParent = (): string => (Buffer.byteLength(tmpdir()) <= 48 ? tmpdir() : '/tmp')

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((settle, reject) => server.once('error', reject).listen(0, '127.0.0.1', settle))
  const bound = server.address()
  await new Promise((settle) => server.close(settle))
  if (bound === null || typeof bound === 'string') throw new Error('a TCP server has an address with a port')
  return bound.port
}
