// The life of a process that serves until it is told to stop: starts, waits for a signal, stops in
// order. The first signal stops it within a deadline; a later one ends it at once. A bug in the
// process is logged with its stack and ends it too, after a short try to stop in order.
import { type Clock, type Log, SettingsError } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import { plainText } from '../output/text.ts'

export interface Service {
  /** Resolves when it ended by itself; rejects with the reason why it had to. */
  readonly ended: Promise<void>
  stop(): Promise<void>
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

type Ending = 'signal' | 'bug' | 'ended' | { readonly failed: unknown }

/** Throws why it could not start, or had to end. */
export async function runService(service: ServiceProcess): Promise<void> {
  const stopping = new AbortController()
  const told = Promise.withResolvers<Ending>()
  using _ = listen(service, (ending) => {
    told.resolve(ending)
    stopping.abort()
  })
  const starting = service.start(stopping.signal)
  const ending = await Promise.race([told.promise, lifeOf(starting)])
  const limitMs = ending === 'bug' ? stopAfterBugWithinMs : stopWithinMs
  // What did not start has nothing to stop, and cleaned up behind itself.
  const isStopped = await within(limitMs, service.clock, async () => (await starting.catch(() => null))?.stop())
  if (!isStopped) service.log.error('did not stop in time; ending without it', { limitMs })
  if (ending === 'bug' || !isStopped) return service.exit(1)
  if (typeof ending === 'object') throw ending.failed
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

/** Ctrl-C reaches every process of the terminal, and npm passes it on to its child: that is one wish, told twice. */
const sameSignalMs = 1_000

function listen({ log, clock, exit }: ServiceProcess, end: (ending: 'signal' | 'bug') => void): Disposable {
  let firstAt: number | null = null
  const onSignal = (signal: string): void => {
    if (firstAt !== null && clock.monotonic() - firstAt < sameSignalMs) return
    log.info(firstAt === null ? 'stopping' : 'told to stop twice: ending at once', { signal })
    if (firstAt !== null) exit(1)
    firstAt ??= clock.monotonic()
    end('signal')
  }
  const onBug = (error: unknown): void => {
    log.error('this is a bug in muster', { error })
    end('bug')
  }
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('uncaughtException', onBug).on('unhandledRejection', onBug)
  const forget = (): void =>
    void process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('uncaughtException', onBug).off('unhandledRejection', onBug)
  return { [Symbol.dispose]: forget }
}

async function within(ms: number, clock: Clock, act: () => Promise<unknown>): Promise<boolean> {
  const done = new AbortController()
  const late = clock.sleep(ms, done.signal).then(
    () => false,
    () => true,
  )
  try {
    return await Promise.race([act().then(() => true), late])
  } finally {
    done.abort()
  }
}

// Why a process could not start, as one sentence. What only a bug throws stays as it is, and is shown
// with its stack.

const bugClasses = [TypeError, ReferenceError, RangeError, SyntaxError]

export function explainStartFailure(error: unknown): unknown {
  if (error instanceof CliError || error instanceof SettingsError || error instanceof FleetError) return error
  if (!(error instanceof Error) || bugClasses.some((bug) => error instanceof bug)) return error
  return new CliError(`could not start: ${plainText(error.message)}`, { cause: error })
}
