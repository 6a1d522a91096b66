// The only place where a backend is started: no shell, a process group of its own, an environment with nothing in it
// that was not meant for it, and a log file that it writes itself, so that it outlives this worker.
import { spawn } from 'node:child_process'
import { open, writeFile } from 'node:fs/promises'
import { resolve, sep } from 'node:path'
import { identifyProcess, type ProcessIdentity } from '@muster/host'
import { FleetError, type ReplicaId } from '@muster/protocol'
import type { Launch } from '../drivers/driver.ts'
import { replicaMarker, workerMarker } from './find-processes.ts'

export type SeenExit = Readonly<{ code: number | null; signal: string | null }>

/** The leader of a replica's process group. */
export interface LeadProcess {
  readonly identity: ProcessIdentity
  /** Never rejects. Of its children some may be left. */
  readonly exited: Promise<SeenExit>
  hasExited(): boolean
}

export type SpawnPlan = Readonly<{
  launch: Launch
  /** The tree: where it runs, and what it is started from. */
  directory: string
  logPath: string
  replicaId: ReplicaId
  workerId: string
  /** Of the worker; what a backend may know of it is on a list. */
  env: Readonly<Record<string, string | undefined>>
}>

/** Where programs, languages, time zones and GPUs are; never a token, a key or a setting of Muster. */
const inherited =
  /^(?:PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|OMP_\w+|(?:CUDA|NVIDIA|ROCR|ROCM|HIP|HSA|ZE|SYCL|ONEAPI|VK|GGML)_\w+)$/
const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

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
  let seen: SeenExit | null = null
  const exited = new Promise<SeenExit>((settle) => {
    child.once('exit', (code, signal) => settle((seen = { code, signal })))
    child.once('error', () => settle((seen = { code: null, signal: null })))
  })
  if (child.pid === undefined) {
    const reason = await new Promise<Error>((settle) => child.once('error', settle))
    throw notStarted(program, reason)
  }
  // This worker lives as long as it has work; a process that it only watches is not that.
  child.unref()
  const { pid } = child
  // The kernel ends an engine before it ends whoever watches it. Where that is not allowed it is as it was.
  await writeFile(`/proc/${pid}/oom_score_adj`, '500').catch(() => undefined)
  // When it is gone already any identity will do: nothing is sent to it, and `exited` has resolved.
  const identity = identifyProcess(pid) ?? { pid, started: 'ended', boot: '' }
  return { identity, exited, hasExited: () => seen !== null }
}

/** Drivers name a file inside the tree, or Node's own; nothing else is ever started. */
function programIn(directory: string, program: string): string {
  if (program === process.execPath) return program
  const path = resolve(directory, program)
  if (path.startsWith(directory + sep)) return path
  throw new FleetError({ code: 'invalid', retry: 'never', message: `${program} is not a file of the backend, so it is not started` })
}

function environmentOf({ launch, env, replicaId, workerId }: SpawnPlan): Record<string, string> {
  const own = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined && inherited.test(entry[0]))
  return { PATH: defaultPath, ...Object.fromEntries(own), ...launch.env, [replicaMarker]: replicaId, [workerMarker]: workerId }
}

const notStarted = (program: string, cause: Error): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `${program} could not be started: ${cause.message}` }, { cause })
