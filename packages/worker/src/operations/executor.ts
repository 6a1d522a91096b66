// Carries accepted work out: each piece in its turn, different backends side by side.
import { FleetError, type Failure } from '@muster/protocol'
import { createByteBudget } from './byte-budget.ts'
import type { Outcome } from './order.ts'
import type { ProgressState } from './progress-reporter.ts'
import { createProgressTeller } from './progress-teller.ts'
import { aboutWork, notEnded, runToItsEnd, shortenJournal, type ExecutorDeps, type Live } from './run-to-its-end.ts'
import { createTurns } from './turns.ts'
import type { Work } from './work.ts'

export interface Executor {
  /** In its turn; what it returns is `ended`. */
  start(work: Work): Promise<Outcome>
  /** Takes up what an earlier run of this worker left. */
  resume(): void
  /** Rejects, and the work is no more, when it could not be noted. */
  stored(work: Work): Promise<void>
  /** Rejects when this worker stops, or is no member any more, before that. */
  ended(work: Work): Promise<Outcome>
  /** Resolves when that is noted; the work ends when it can. */
  callOff(work: Work, failure: Failure): Promise<void>
  /** Null unless its turn has come. */
  progressOf(work: Work): ProgressState | null
  /** Ends everything, tells nobody, and remembers nothing of it. */
  forget(): void
  isStopping(): boolean
  stop(): Promise<void>
}

/** Bytes received and not yet written, over all that runs at once; and what each may hold whatever the others do. */
const budgetBytes = { totalBytes: 64 * 1024 * 1024, minimumBytes: 1024 * 1024 }

const stopWaitMs = 10_000

export function createExecutor(deps: ExecutorDeps): Executor {
  const { ledger, log } = deps
  const lives = new Map<Work, Live>()
  const runs = new Set<Promise<void>>()
  const turns = createTurns()
  const budget = createByteBudget(budgetBytes)
  const reporterOf = createProgressTeller(deps)
  const stopping = new AbortController()

  const begin = (work: Work, stored: Promise<void>): Promise<Outcome> => {
    const calling = new AbortController()
    const turn = turns.take(ledger.namesOf(work.order), calling.signal)
    const live: Live = { stored, ended: Promise.withResolvers(), calling, turn, reporter: reporterOf(work), isRunning: false }
    // Not everybody waits for the end.
    live.ended.promise.catch(() => undefined)
    lives.set(work, live)
    const run = runToItsEnd(work, live, { ...deps, budget }).finally(() => lives.delete(work) && runs.delete(run))
    runs.add(run)
    return live.ended.promise
  }
  const breakOff = (): void => {
    for (const live of lives.values()) live.calling.abort(new FleetError(notEnded))
  }
  return {
    start: (work) => begin(work, store(work, deps)),
    resume() {
      const unfinished = ledger.unfinished()
      for (const work of unfinished) {
        log.info('resuming an operation', aboutWork(work))
        void begin(work, Promise.resolve())
        if (work.calledOff !== null) lives.get(work)?.calling.abort(new FleetError(work.calledOff))
      }
      if (unfinished.length === 0) return
      const tidying = tidyAfter([...runs], stopping.signal, deps).finally(() => runs.delete(tidying))
      runs.add(tidying)
    },
    stored: (work) => lives.get(work)?.stored ?? Promise.resolve(),
    ended: (work) => {
      if (work.end !== null) return Promise.resolve(work.end.outcome)
      return lives.get(work)?.ended.promise ?? Promise.reject(new FleetError(notEnded))
    },
    async callOff(work, failure) {
      if (work.end !== null || work.calledOff !== null) return
      work.calledOff = failure
      lives.get(work)?.calling.abort(new FleetError(failure))
      await noteCallOff(work, failure, deps)
    },
    progressOf: (work) => progressOf(lives.get(work)),
    forget() {
      ledger.forget()
      breakOff()
      void shortenJournal(deps)
    },
    isStopping: () => stopping.signal.aborted,
    async stop() {
      stopping.abort()
      breakOff()
      await within(stopWaitMs, Promise.all(runs), deps)
    },
  }
}

/** Whoever does not listen to being called off must not keep a worker from ending. */
async function within(ms: number, work: Promise<unknown>, { clock, log }: ExecutorDeps): Promise<void> {
  const done = new AbortController()
  const tooLong = clock.sleep(ms, done.signal).then(
    () => log.warn('work on backends did not stop in time; it is taken up at the next start'),
    () => undefined,
  )
  await Promise.race([work, tooLong])
  done.abort()
}

/** What crashed in its last steps is found done, and then nobody has cleaned up after it. */
async function tidyAfter(resumed: readonly Promise<void>[], signal: AbortSignal, { installer, log }: ExecutorDeps): Promise<void> {
  await Promise.all(resumed)
  if (signal.aborted) return
  await installer.tidy(signal).catch((error: unknown) => log.warn('what is not needed was not removed', { error }))
}

async function store(work: Work, { journal, step }: ExecutorDeps): Promise<void> {
  await journal.append({ type: 'order', id: work.id, order: work.order })
  work.isStored = true
  await step('W.journal.after')
}

const progressOf = (live: Live | undefined): ProgressState | null => (live?.isRunning === true ? live.reporter.now() : null)

async function noteCallOff({ id }: Work, failure: Failure, { journal, log }: ExecutorDeps): Promise<void> {
  await journal.append({ type: 'cancel', id, failure }).catch((error: unknown) => log.warn('calling off was not noted', { error }))
}
