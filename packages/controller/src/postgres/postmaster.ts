// The first process of a server, seen from outside: which one it is, and how it is ended.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { errorCode, identifyProcess, isAlive, type Clock, type Log, type ProcessIdentity } from '@muster/host'
import { readIfThere } from './private-file.ts'
import { listProcesses, worksOn } from './process-table.ts'

export interface StopDeps {
  readonly clock: Clock
  readonly log: Log
}

/** Whether the server with this pid says that it takes connections. Its eighth line is how PostgreSQL's own pg_ctl knows. */
export async function isReady(clusterDir: string, pid: number): Promise<boolean> {
  const lines = (await readIfThere(join(clusterDir, 'postmaster.pid')))?.split('\n')
  return lines?.[0] === String(pid) && lines[7]?.trim() === 'ready'
}

/**
 * Ends what a Muster that died left running on this cluster: nothing of it may be alive when the next server starts.
 * `noted` is the server that the dead Muster wrote down; it may have died before it could.
 */
export async function stopOrphan({
  clusterDir,
  noted,
  deps,
}: {
  clusterDir: string
  noted: ProcessIdentity | null
  deps: StopDeps
}): Promise<void> {
  if (noted !== null && isAlive(noted)) {
    deps.log.warn('stopping the database server that a Muster process left behind', { pid: noted.pid })
    await stopPostmaster(noted, deps)
  }
  const pidFile = join(clusterDir, 'postmaster.pid')
  const pid = Number.parseInt((await readIfThere(pidFile)) ?? '', 10)
  const found = Number.isInteger(pid) ? identifyProcess(pid) : null
  if (found !== null && worksOn(listProcesses().find((each) => each.pid === pid)?.args ?? [], clusterDir)) {
    deps.log.warn('stopping the database server that a Muster process left behind', { pid })
    await stopPostmaster(found, deps)
  }
  // PostgreSQL refuses to start while the pid in this file belongs to any process of the same user: to another program, or to a
  // server that has ended and that nobody has waited for. Whether children of that server still run, it knows from their memory.
  if (isTaken(pid)) await rm(pidFile, { force: true })
}

/** `at once`: it does not answer anyway, so there is no use in waiting for it. */
export type StopPace = 'in order' | 'at once'

/** Fast shutdown, then immediate shutdown (recovers at the next start), then kill. All of it within what a service has for its end. */
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
    deps.log.warn('the database server does not stop', { pid: server.pid, signal })
  }
  const family = [server, ...childrenOf(server.pid)]
  for (const member of family) send(member, 'SIGKILL')
  for (const member of family) await hasEnded(member, 5_000, deps.clock)
}

/** Ends orphaned initdb runs (and the servers they use) on directories below `dir`. */
export async function stopInitialisers(dir: string, clock: Clock): Promise<void> {
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
