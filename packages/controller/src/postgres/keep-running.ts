// Replaces a server that died by itself (killed, out of memory) for as long as Muster lives. Clients only see their connections drop.
import { isAlive, type Clock, type Log } from '@muster/host'
import { backoffMs } from '@muster/protocol'
import type { StopPace } from './postmaster.ts'
import type { ServerProcess } from './server-process.ts'

export interface KeptServer {
  /** The server of now. */
  readonly current: ServerProcess
  stop(how: StopPace): Promise<void>
}

export interface KeepDeps {
  readonly start: (signal: AbortSignal) => Promise<ServerProcess>
  readonly clock: Clock
  readonly log: Log
}

/** A server that ran this long did not die of its start. */
const soundAfterMs = 60_000

export function keepRunning(first: ServerProcess, { start, clock, log }: KeepDeps): KeptServer {
  const stopping = new AbortController()
  const { signal } = stopping
  const stopWanted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
  let current = first

  // A Muster that throws itself out still takes its server along; one that is killed leaves it to the next start.
  const onExit = (): void => {
    if (isAlive(current.identity)) process.kill(current.identity.pid, 'SIGINT')
  }
  process.on('exit', onExit)

  const replace = async (failures: number): Promise<ServerProcess | null> => {
    for (let attempt = failures + 1; !signal.aborted; attempt += 1) {
      try {
        await clock.sleep(backoffMs(attempt, { baseMs: 50, maxMs: 5_000, jitter: 0 }, 0.5), signal)
        return await start(signal)
      } catch (error) {
        if (!signal.aborted) log.error('the database server does not start again', { error, attempt })
      }
    }
    return null
  }

  const watching = (async () => {
    let failures = 0
    while (!signal.aborted) {
      const begin = clock.monotonic()
      const how = await Promise.race([current.ended, stopWanted])
      if (signal.aborted || how === undefined) return
      log.error('the database server ended by itself and is started again', { pid: current.identity.pid, ...how })
      failures = clock.monotonic() - begin > soundAfterMs ? 0 : failures + 1
      current = (await replace(failures - 1)) ?? current
    }
  })()

  return {
    get current() {
      return current
    },
    stop: async (how) => {
      stopping.abort()
      await watching
      await current.stop(how)
      process.off('exit', onExit)
    },
  }
}
