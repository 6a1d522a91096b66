// The postmaster (a server's first process) seen from outside: finding it and stopping it.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, errorCode, identifyProcess, isAlive, type Log, type ProcessIdentity } from '@muster/host'
import { readIfThere } from './private-file.ts'

export interface StopDeps {
  readonly clock: Clock
  readonly log: Log
}

/** True when the server with this pid accepts connections, by the eighth line of its pid file, as pg_ctl checks it. */
export async function isReady(clusterDir: string, pid: number): Promise<boolean> {
  const lines = (await readIfThere(join(clusterDir, 'postmaster.pid')))?.split('\n')
  return lines?.[0] === String(pid) && lines[7]?.trim() === 'ready'
}

/** Stops a server that a dead Muster left running on this cluster. `recorded` is the server in its claim, if it got that far. */
export async function stopOrphan({
  clusterDir,
  recorded,
  deps,
}: {
  clusterDir: string
  recorded: ProcessIdentity | null
  deps: StopDeps
}): Promise<void> {
  if (recorded !== null && isAlive(recorded)) {
    deps.log.warn('orphaned database server found; stopping it', { pid: recorded.pid })
    await stopPostmaster(recorded, deps)
  }
  const pidFile = join(clusterDir, 'postmaster.pid')
  const pid = Number.parseInt((await readIfThere(pidFile)) ?? '', 10)
  const found = Number.isInteger(pid) ? identifyProcess(pid) : null
  if (found !== null && worksOn(listProcesses().find((each) => each.pid === pid)?.args ?? [], clusterDir)) {
    deps.log.warn('orphaned database server found; stopping it', { pid })
    await stopPostmaster(found, deps)
  }
  // PostgreSQL refuses to start while the pid in this file belongs to any process of the same user: another program, or a zombie.
  // It detects running children of that server by their shared memory.
  if (isTaken(pid)) await rm(pidFile, { force: true })
}

/** `at once`: the server does not respond, so a fast shutdown would time out. */
export type StopPace = 'in order' | 'at once'

/** Fast shutdown, then immediate shutdown (recovers at the next start), then kill; within the stop timeout of a service. */
const patience = {
  'in order': [
    ['SIGINT', 5_000],
    ['SIGQUIT', 1_500],
  ],
  'at once': [['SIGQUIT', 1_500]],
} as const

export async function stopPostmaster(server: ProcessIdentity, deps: StopDeps, how: StopPace = 'in order'): Promise<void> {
  for (const [signal, patienceMs] of patience[how]) {
    send(server, signal)
    if (await hasEnded(server, patienceMs, deps.clock)) return
    deps.log.warn('database server does not stop', { pid: server.pid, signal })
  }
  const family = [server, ...childrenOf(server.pid)]
  for (const member of family) send(member, 'SIGKILL')
  for (const member of family) await hasEnded(member, 5_000, deps.clock)
}

/** Kills orphaned initdb runs (and their servers) on directories below `dir`. */
export async function stopInitdb(dir: string, clock: Clock): Promise<void> {
  const running = listProcesses()
    .filter(({ args }) => args.some((arg) => arg.startsWith(`${dir}/init-`)) && /(^|\/)(postgres|initdb)$/.test(args[0] ?? ''))
    .flatMap(({ pid }) => identifyProcess(pid) ?? [])
  for (const each of running) send(each, 'SIGKILL')
  for (const each of running) await hasEnded(each, 5_000, clock)
}

function childrenOf(pid: number): ProcessIdentity[] {
  return listProcesses().flatMap((each) => (each.parent === pid ? (identifyProcess(each.pid) ?? []) : []))
}

function isTaken(pid: number): boolean {
  try {
    return Number.isInteger(pid) && process.kill(pid, 0)
  } catch {
    return false
  }
}

function send(to: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isAlive(to)) return
  try {
    process.kill(to.pid, signal)
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error
  }
}

async function hasEnded(identity: ProcessIdentity, patienceMs: number, clock: Clock): Promise<boolean> {
  const deadline = clock.monotonic() + patienceMs
  while (isAlive(identity)) {
    if (clock.monotonic() > deadline) return false
    await clock.sleep(10)
  }
  return true
}

// Processes are found by command lines, not by working directories: reading those of another user needs a privilege that root
// lacks in most containers.
type RunningProcess = Readonly<{ pid: number; parent: number; args: readonly string[] }>

export function listProcesses(): readonly RunningProcess[] {
  return process.platform === 'linux' ? fromProc() : fromPs()
}

/** True when `args` is a PostgreSQL program on exactly this directory. */
export function worksOn(args: readonly string[], directory: string): boolean {
  return /(^|\/)(postgres|initdb)$/.test(args[0] ?? '') && args.includes(directory)
}

function fromProc(): RunningProcess[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        // The program's name is in brackets and may contain anything; parse from its end.
        const [, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const args = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').slice(0, -1)
        return [{ pid: Number(name), parent: Number(parent), args }]
      } catch {
        return [] // The process ended meanwhile.
      }
    })
}

// `ps` joins the arguments with blanks, so a directory with a blank in its name is not recognized here.
function fromPs(): RunningProcess[] {
  const table = execFileSync('ps', ['-axo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  return table.split('\n').flatMap((line) => {
    const [pid, parent, ...args] = line.trim().split(/\s+/)
    return pid === undefined || parent === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), args }]
  })
}
