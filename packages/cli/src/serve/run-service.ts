// Runs a service process: starts it, waits for a signal, drains it, and stops it in order within a deadline. A second signal, and
// the end of the deadline, kill the processes of backends and end this one. An uncaught exception is logged with its stack and ends
// it too, after a short attempt to stop in order; processes of backends that are left serve on until the next start adopts them.
import { type Clock, type Log, SettingsError, withDeadline } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'

export interface Service {
  /** Resolves when the service ended without a signal; rejects with the failure that ended it. */
  readonly ended: Promise<void>
  /** Finishes the work in progress after a signal, within a limit of its own. Not called after a failure. */
  drain?(): Promise<void>
  stop(): Promise<void>
  /** Kills the processes that the service started, before an exit that does not wait for `stop`. */
  kill?(): Promise<void>
}

export interface ServiceProcess {
  readonly log: Log
  readonly clock: Clock
  /** Starts everything. Should give up soon after the signal aborts. */
  readonly start: (signal: AbortSignal) => Promise<Service>
  readonly exit: (code: number) => void
}

const stopWithinMs = 10_000
const stopAfterBugWithinMs = 2000
const killWithinMs = 2000

type Ending = 'signal' | 'bug' | 'ended' | { readonly failed: unknown }

/** Throws the failure of the start, or the one that ended the service. */
export async function runService(service: ServiceProcess): Promise<void> {
  const stopping = new AbortController()
  const ended = Promise.withResolvers<Ending>()
  const bug = Promise.withResolvers<Ending>()
  let started: Service | null = null
  using _ = listen(service, {
    end: (ending) => {
      if (ending === 'bug') bug.resolve(ending)
      ended.resolve(ending)
      stopping.abort()
    },
    kill: () => kill(service, started),
  })
  const starting = service.start(stopping.signal)
  starting.then(
    (running) => (started = running),
    () => undefined,
  )
  const first = await Promise.race([ended.promise, lifeOf(starting)])
  const ending = first === 'signal' ? await Promise.race([bug.promise, drain(started)]) : first
  const limitMs = ending === 'bug' ? stopAfterBugWithinMs : stopWithinMs
  // A failed start has cleaned up already.
  const isStopped = await settleWithin(limitMs, service.clock, async () => (await starting.catch(() => null))?.stop())
  if (!isStopped) {
    service.log.error('service did not stop in time; exiting', { limitMs })
    if (ending === 'bug') service.log.warn(leftRunning)
    else await kill(service, started)
  }
  if (ending === 'bug' || !isStopped) return service.exit(1)
  if (typeof ending === 'object') throw ending.failed
}

const leftRunning = 'processes of backends may be left running; the next start adopts or ends them'

/** Kills the processes of backends, or says that some may be left. */
async function kill({ log, clock }: ServiceProcess, started: Service | null): Promise<void> {
  const isDone =
    started !== null &&
    (await settleWithin(killWithinMs, clock, async () => await started.kill?.()).catch((error: unknown) => {
      log.error('cannot kill the processes of backends', { error })
      return false
    }))
  if (!isDone) log.warn(leftRunning)
}

/** A service that was still starting has no work in progress. */
async function drain(started: Service | null): Promise<Ending> {
  await started?.drain?.()
  return 'signal'
}

async function lifeOf(starting: Promise<Service>): Promise<Ending> {
  try {
    const running = await starting.catch((error: unknown) => {
      throw explainStartFailure(error)
    })
    await running.ended
    return 'ended'
  } catch (error) {
    return { failed: error }
  }
}

/** Ctrl-C reaches every process of the terminal, and npm forwards it to its child: both signals are one request. */
const sameSignalMs = 1_000

type Endings = Readonly<{ end: (ending: 'signal' | 'bug') => void; kill: () => Promise<void> }>

function listen({ log, clock, exit }: ServiceProcess, { end, kill: killAll }: Endings): Disposable {
  let firstAt: number | null = null
  let isKilling = false
  const onSignal = (signal: string): void => {
    if (firstAt === null) {
      log.info('stopping', { signal })
      firstAt = clock.monotonic()
      return end('signal')
    }
    if (clock.monotonic() - firstAt < sameSignalMs) return
    // A third signal does not wait for the kill.
    if (isKilling) return exit(1)
    isKilling = true
    log.info('second signal received; killing the processes of backends and exiting', { signal })
    void killAll().finally(() => exit(1))
  }
  const onBug = (error: unknown): void => {
    log.error('this is a bug in muster', { error })
    end('bug')
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('uncaughtException', onBug).on('unhandledRejection', onBug)
  const release = (): void =>
    void process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('uncaughtException', onBug).off('unhandledRejection', onBug)
  return { [Symbol.dispose]: release }
}

/** False at the limit; throws what `work` throws. */
async function settleWithin(ms: number, clock: Clock, work: () => Promise<unknown>): Promise<boolean> {
  const outcome = await withDeadline({ clock, ms, what: 'the stop' }, () => Promise.allSettled([work()])).catch(() => null)
  if (outcome?.[0].status === 'rejected') throw outcome[0].reason
  return outcome !== null
}

const bugClasses = [TypeError, ReferenceError, RangeError, SyntaxError]

/** A failure as one sentence; the errors of bugs keep their stack. */
function explainStartFailure(error: unknown): unknown {
  if (error instanceof CliError || error instanceof SettingsError || error instanceof FleetError) return error
  if (!(error instanceof Error) || bugClasses.some((bug) => error instanceof bug)) return error
  return new CliError(`could not start: ${plainText(error.message)}`, { cause: error })
}
