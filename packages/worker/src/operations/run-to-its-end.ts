// One piece of work, from being noted to an end that is in the journal before anybody hears of it.
import type { Clock, Log } from '@muster/host'
import { failureOf, FleetError, type Failure } from '@muster/protocol'
import type { Announcer } from './announcer.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { Installer, Step } from './installer.ts'
import type { Journal } from './journal.ts'
import type { Ledger } from './ledger.ts'
import type { Outcome } from './order.ts'
import { perform } from './perform.ts'
import type { ProgressReporter } from './progress-reporter.ts'
import { statusOf } from './status.ts'
import type { Turn } from './turns.ts'
import type { Work } from './work.ts'

export type ExecutorDeps = Readonly<{
  ledger: Ledger
  journal: Journal
  announcer: Announcer
  installer: Installer
  clock: Clock
  log: Log
  step: Step
}>

/** What there is of work only while this process works on it. */
export type Live = {
  readonly stored: Promise<void>
  readonly ended: PromiseWithResolvers<Outcome>
  readonly calling: AbortController
  readonly turn: Turn
  readonly reporter: ProgressReporter
  isRunning: boolean
}

/** Shorter ones are not worth rewriting. */
const shortJournalLines = 1_000
export const notEnded: Failure = { code: 'unavailable', retry: 'backoff', message: 'this worker stopped before it was done' }

type Means = ExecutorDeps & Readonly<{ budget: ByteBudget }>

/** Never rejects. */
export async function runToItsEnd(work: Work, live: Live, means: Means): Promise<void> {
  const { ledger, journal, log } = means
  try {
    await live.stored
  } catch (error) {
    ledger.remove(work)
    return leave(live, error)
  }
  const outcome = await carryOut(work, live, means)
  const isForgotten = (): boolean => ledger.get(work.id) !== work
  // To the next start it is unfinished.
  if (outcome === null || isForgotten()) return leave(live, new FleetError(notEnded))
  live.reporter.end(outcome.state)
  const end = { outcome, boot: ledger.boot() }
  await journal.append({ type: 'end', id: work.id, ...end }).catch((error: unknown) => log.error('an end was not noted', { error }))
  work.end = end
  if (isForgotten()) return leave(live, new FleetError(notEnded))
  log.info('an operation ended', { ...aboutWork(work), ...outcome })
  live.turn.end()
  await tellEnd(work, live, means)
  ledger.prune()
  if (journal.lines() > Math.max(shortJournalLines, 4 * ledger.size())) await shortenJournal(means)
}

/** Null: neither done nor called off, for this worker stops. */
async function carryOut(work: Work, live: Live, { installer, budget, log, step }: Means): Promise<Outcome | null> {
  const { signal } = live.calling
  try {
    await live.turn.come
    signal.throwIfAborted()
    live.isRunning = true
    const context = { onProgress: live.reporter.report, onSign: live.reporter.sign, step, signal, budget: budget.openAccount() }
    return { state: 'succeeded', ...(await perform(work.order, { installer, context })) }
  } catch (error) {
    if (signal.aborted) return work.calledOff === null ? null : { state: 'cancelled', failure: work.calledOff }
    if (!(error instanceof FleetError)) log.error('work on a backend failed by a mistake of ours', { ...aboutWork(work), error })
    const failure = failureOf(error)
    return { state: 'failed', failure: { ...failure, message: failure.message.slice(0, 8192) } }
  }
}

async function tellEnd(work: Work, live: Live, { announcer, step, log }: Means): Promise<void> {
  const at = async (name: string): Promise<void> => {
    try {
      await step(name)
    } catch (error) {
      log.error('a step failed', { step: name, error })
    }
  }
  await at('W.reply.before')
  if (work.end !== null) live.ended.resolve(work.end.outcome)
  for (const opId of work.opIds) announcer.result(statusOf(opId, work))
  announcer.inventory()
  await at('W.reply.after')
}

function leave(live: Live, reason: unknown): void {
  live.turn.end()
  live.reporter.end('left')
  live.ended.reject(reason)
}

export async function shortenJournal({ journal, ledger, log }: Pick<Means, 'journal' | 'ledger' | 'log'>): Promise<void> {
  await journal.rewrite(ledger.entries).catch((error: unknown) => log.warn('the journal of operations was not shortened', { error }))
}

export function aboutWork({ order: { kind, backend, op_id, generation } }: Work): Record<string, unknown> {
  return { kind, backend, op_id, generation }
}
