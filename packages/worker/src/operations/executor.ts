// Runs accepted work: one piece per backend at a time, different backends in parallel.
import { settlesWithin } from '@muster/host'
import { FleetError, type Failure } from '@muster/protocol'
import { createProgressReporter, publishProgress, type ProgressReporter, type ProgressState } from '../work/reports.ts'
import type { Outcome } from './journal.ts'
import { createByteBudget } from './byte-budget.ts'
import type { Work } from './ledger.ts'
import { compactJournal, notEnded, runOperation, workFields, type ExecutorDeps, type RunningWork } from './run-operation.ts'

export interface Executor {
  /** Queues the work; resolves when it has ended. */
  start(work: Work): Promise<Outcome>
  /** Starts the unfinished work of an earlier run of this worker. */
  resume(): void
  /** Rejects, and the work is dropped, when it could not be stored. */
  stored(work: Work): Promise<void>
  /** Rejects when this worker stops or loses its membership first. */
  ended(work: Work): Promise<Outcome>
  /** Resolves when the cancel is stored; the work ends as soon as it can. */
  cancel(work: Work, failure: Failure): Promise<void>
  /** Null unless the work runs. */
  progressOf(work: Work): ProgressState | null
  /** Aborts and drops all work without reporting it. */
  forget(): void
  isStopping(): boolean
  stop(): Promise<void>
}

/** Bytes received and not yet written, over all running work; and the share that each piece of work always has. */
const budgetBytes = { totalBytes: 64 * 1024 * 1024, minimumBytes: 1024 * 1024 }

const stopWaitMs = 10_000

export function createExecutor(deps: ExecutorDeps): Executor {
  const { ledger, clock, log } = deps
  const running = new Map<Work, RunningWork>()
  const runs = new Set<Promise<void>>()
  const takeTurn = createTurns()
  const budget = createByteBudget(budgetBytes)
  const reporterOf = createReporters(deps)
  const stopping = new AbortController()

  const begin = (work: Work, stored: Promise<void>): Promise<Outcome> => {
    const abort = new AbortController()
    const turn = takeTurn(ledger.namesOf(work.command), abort.signal)
    const live: RunningWork = { stored, ended: Promise.withResolvers(), abort, turn, reporter: reporterOf(work), isRunning: false }
    // Callers may ignore the end.
    live.ended.promise.catch(() => undefined)
    running.set(work, live)
    const run = runOperation(work, live, { ...deps, budget }).finally(() => running.delete(work) && runs.delete(run))
    runs.add(run)
    return live.ended.promise
  }
  const abortAll = (): void => {
    for (const live of running.values()) live.abort.abort(new FleetError(notEnded))
  }
  return {
    start: (work) => begin(work, store(work, deps)),
    resume() {
      const unfinished = ledger.unfinished()
      for (const work of unfinished) {
        log.info('operation resumed', workFields(work))
        void begin(work, Promise.resolve())
        if (work.cancelFailure !== null) running.get(work)?.abort.abort(new FleetError(work.cancelFailure))
      }
      if (unfinished.length === 0) return
      const tidying = tidyAfter([...runs], stopping.signal, deps).finally(() => runs.delete(tidying))
      runs.add(tidying)
    },
    stored: (work) => running.get(work)?.stored ?? Promise.resolve(),
    ended: (work) => {
      if (work.end !== null) return Promise.resolve(work.end.outcome)
      return running.get(work)?.ended.promise ?? Promise.reject(new FleetError(notEnded))
    },
    async cancel(work, failure) {
      if (work.end !== null || work.cancelFailure !== null) return
      work.cancelFailure = failure
      running.get(work)?.abort.abort(new FleetError(failure))
      await storeCancel(work, failure, deps)
    },
    progressOf: (work) => progressOf(running.get(work)),
    forget() {
      ledger.forget()
      abortAll()
      void compactJournal(deps)
    },
    isStopping: () => stopping.signal.aborted,
    async stop() {
      stopping.abort()
      abortAll()
      // An installer that ignores its signal must not keep a worker from ending.
      const isStopped = await settlesWithin({ clock, ms: stopWaitMs }, Promise.all(runs))
      if (!isStopped) log.warn('operations did not stop in time; the next start resumes them')
    },
  }
}

/** Work that crashed in its last steps counts as done when it is resumed, and nothing has cleaned up after it. */
async function tidyAfter(resumed: readonly Promise<void>[], signal: AbortSignal, { installer, log }: ExecutorDeps): Promise<void> {
  await Promise.all(resumed)
  if (signal.aborted) return
  await installer.tidy(signal).catch((error: unknown) => log.warn('cannot remove unused content', { error }))
}

async function store(work: Work, { journal, step }: ExecutorDeps): Promise<void> {
  await journal.append({ type: 'order', id: work.id, order: work.command })
  work.isStored = true
  await step('W.journal.after')
}

const progressOf = (live: RunningWork | undefined): ProgressState | null => (live?.isRunning === true ? live.reporter.now() : null)

async function storeCancel({ id }: Work, failure: Failure, { journal, log }: ExecutorDeps): Promise<void> {
  await journal.append({ type: 'cancel', id, failure }).catch((error: unknown) => log.warn('cannot store a cancel request', { error }))
}

function createReporters({ ledger, publisher, clock, log }: ExecutorDeps): (work: Work) => ProgressReporter {
  // Higher after a restart than any number sent before: receivers drop lower ones.
  let seq = ledger.boot() * 2 ** 32
  const nextSeq = (): number => (seq += 1)
  return (work) => {
    const target = (): Parameters<typeof publishProgress>[0] => ({ opIds: work.opIds, epoch: work.epoch, backend: work.command.backend })
    return createProgressReporter({ publish: (state) => publishProgress(target(), state, { publisher, log }), nextSeq, clock })
  }
}

export interface Turn {
  /** Rejects with the signal's reason when that aborts first. */
  readonly ready: Promise<void>
  /** Lets the next one go, whether or not this one was ready. */
  end(): void
}

export type TakeTurn = (names: readonly string[], signal: AbortSignal) => Turn

type QueueEntry = { readonly names: ReadonlySet<string>; go: (() => void) | null }

/** Orders work by names: work that shares a name with earlier work waits for its end; all other work runs at once. */
export function createTurns(): TakeTurn {
  const queue: QueueEntry[] = []
  const isFree = (entry: QueueEntry): boolean => {
    for (const earlier of queue) {
      if (earlier === entry) return true
      if (!earlier.names.isDisjointFrom(entry.names)) return false
    }
    return true
  }
  const leave = (entry: QueueEntry): void => {
    const index = queue.indexOf(entry)
    if (index < 0) return
    queue.splice(index, 1)
    for (const waiting of queue) if (waiting.go !== null && isFree(waiting)) waiting.go()
  }
  return (names, signal) => {
    const entry: QueueEntry = { names: new Set(names), go: null }
    queue.push(entry)
    const ready = new Promise<void>((resolve, reject) => {
      const onAbort = (): void => {
        leave(entry)
        reject(signal.reason)
      }
      entry.go = () => {
        entry.go = null
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      if (signal.aborted) return onAbort()
      signal.addEventListener('abort', onAbort, { once: true })
      if (isFree(entry)) entry.go()
    })
    // The abort may come before anything awaits the turn.
    ready.catch(() => undefined)
    return { ready, end: () => leave(entry) }
  }
}
