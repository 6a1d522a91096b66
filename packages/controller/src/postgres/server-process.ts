// One run of the server: from its start until it takes connections, and to its end.
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import { identifyProcess, type Clock, type Log, type ProcessIdentity } from '@muster/host'
import { readLogSince } from './bounded-log.ts'
import { isReady, stopPostmaster, type StopPace } from './postmaster.ts'
import { startProgram, type Program } from './run-program.ts'

export interface ServerProcess {
  readonly identity: ProcessIdentity
  /** Resolves when it has ended, however. */
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  stop(how: StopPace): Promise<void>
}

export interface ServerPlan {
  readonly program: Program
  readonly clusterDir: string
  readonly logFile: string
  readonly clock: Clock
  readonly log: Log
  /** Called as soon as the process exists, before it is ready. */
  readonly onSpawn: (identity: ProcessIdentity) => Promise<void>
  readonly signal?: AbortSignal
}

/** Longer than this is only said, not judged: after a crash the server may have much to replay. */
const remarkableMs = 5_000

export async function startServer(plan: ServerPlan): Promise<ServerProcess> {
  plan.signal?.throwIfAborted()
  await using logFile = await open(plan.logFile, 'a', 0o600)
  const { size } = await logFile.stat()
  const child = await startProgram(plan.program, ['ignore', logFile.fd, logFile.fd])
  const server = watch(child, plan)
  try {
    await plan.onSpawn(server.identity)
    await untilReady(server, { plan, logSize: size })
  } catch (error) {
    await server.stop('in order')
    throw error
  }
  return server
}

function watch(child: ChildProcess, { clock, log }: ServerPlan): ServerProcess {
  const ended = once(child, 'exit').then(() => ({ code: child.exitCode, signal: child.signalCode }))
  const pid = child.pid ?? 0
  // When it is gone already, any identity will do: nothing is sent to it and `ended` resolves.
  const identity = identifyProcess(pid) ?? { pid, started: 'ended', boot: '' }
  return {
    identity,
    ended,
    stop: async (how) => {
      await stopPostmaster(identity, { clock, log }, how)
      await ended
    },
  }
}

async function untilReady(server: ServerProcess, { plan, logSize }: { plan: ServerPlan; logSize: number }): Promise<void> {
  const { clock, signal, clusterDir } = plan
  let hasEnded = false
  void server.ended.finally(() => {
    hasEnded = true
  })
  const begin = clock.monotonic()
  let isRemarked = false
  while (!(await isReady(clusterDir, server.identity.pid))) {
    if (hasEnded) throw new Error(`the database server did not start. Its log says: ${await readLogSince(plan.logFile, logSize)}`)
    if (!isRemarked && clock.monotonic() - begin > remarkableMs) {
      isRemarked = true
      plan.log.warn('the database server takes long to start', { log: plan.logFile })
    }
    await clock.sleep(5, signal)
  }
}
