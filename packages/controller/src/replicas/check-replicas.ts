// Asks new replicas something before they get requests, where others serve as long as they do not. Any controller takes
// those that are due, by lease; what one that died had is taken over.
import { type Clock, createLoop, type Log } from '@muster/host'
import type { Failure } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import type { LoadStore } from '../store/loads.ts'
import type { DueCheck, ReplicaCheckStore } from '../store/replica-checks.ts'
import { createReplicaAsker, type ReplicaAsker } from './ask-replica.ts'
import { judge, questionsFor, type Verdict } from './check.pure.ts'

export interface CheckDeps {
  readonly checks: ReplicaCheckStore
  readonly loads: Pick<LoadStore, 'findByReplica'>
  readonly advance: Advance
  /** This process. */
  readonly holder: string
  /** The safety poll. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

/** An engine without a GPU may need long for its first words; one that says nothing for so long is not to be waited for. */
const silenceMs = 60_000
const leaseMs = 8_000
const renewEveryMs = 2_000
/** Each makes an engine work: not so many that they disturb those that serve. */
const atOnce = 4
/** Who could not be asked is asked again; a process that died meanwhile is told by its worker. */
const againInMs = 1_000
const patienceMs = 30_000

export interface ReplicaChecks {
  wake(): void
  /** Until aborted; what it has then is taken over when its lease ends. */
  run(signal: AbortSignal): Promise<void>
}

export function createReplicaChecks(deps: CheckDeps): ReplicaChecks {
  const { checks, holder, intervalMs, clock, log } = deps
  const rounds = createLoop({ what: 'new replicas can not be checked', clock, log })
  const running = new Set<Promise<void>>()
  const round = async (asker: ReplicaAsker, signal: AbortSignal): Promise<number> => {
    const free = atOnce - running.size
    // Its end wakes.
    if (free === 0) return intervalMs
    const due = await checks.take({ holder, leaseMs, limit: free })
    for (const check of due) {
      const work = checkOne(check, { ...deps, asker, signal })
        .catch((error: unknown) => log.warn('a new replica was not checked; it is tried again', { replica: check.id, error }))
        .finally(() => {
          running.delete(work)
          rounds.wake()
        })
      running.add(work)
    }
    return due.length === free ? 0 : Math.min(intervalMs, (await checks.nextDue()) ?? Infinity)
  }
  return {
    wake: rounds.wake,
    async run(signal) {
      const asker = createReplicaAsker({ silenceMs, controllerId: holder })
      try {
        await rounds.run((until) => round(asker, until), signal)
        await Promise.all(running)
      } finally {
        await asker.close()
      }
    },
  }
}

type Means = CheckDeps & Readonly<{ asker: ReplicaAsker; signal: AbortSignal }>

async function checkOne(check: DueCheck, means: Means): Promise<void> {
  const { checks, holder, log } = means
  const about = { model: check.model, replica: check.id, node: check.nodeName }
  const verdict = await whileHeld(check, means, (signal) => ask(check, means, signal))
  switch (verdict?.is) {
    case undefined:
      return log.debug('the check of a replica is not ours any more', about)
    case 'passed':
    case 'not_served':
      if (await checks.pass(check.id, holder)) log.info('a new replica answers, and gets requests from now on', about)
      return
    case 'unclear':
      // On a node that is away nothing is said of it.
      if (check.askedForMs > patienceMs && (await checks.isDue(check.id)))
        return await fail(check, `it could not be asked: ${verdict.why}`, means)
      log.debug('a new replica could not be asked', { ...about, why: verdict.why })
      await checks.keep(check.id, { holder, forMs: againInMs })
      return
    case 'failed':
      return await fail(check, verdict.cause, means)
  }
}

/** Of the first question that it serves; none of them served is no failure. */
async function ask(check: DueCheck, { asker }: Means, signal: AbortSignal): Promise<Verdict> {
  for (const question of questionsFor(check)) {
    const verdict = judge(question, await asker.ask(check, question, signal))
    if (verdict.is !== 'not_served') return verdict
  }
  return { is: 'not_served' }
}

async function fail(check: DueCheck, cause: string, { checks, loads, advance, holder, log }: Means): Promise<void> {
  // Whoever has it now judges for himself.
  if (!(await checks.keep(check.id, { holder, forMs: leaseMs }))) return
  const failure: Failure = { code: 'internal', retry: 'backoff', message: `the check of the new replica failed: ${cause}`.slice(0, 8192) }
  log.warn('a new replica failed its check', { model: check.model, replica: check.id, node: check.nodeName, cause })
  await advance({
    read: () => loads.findByReplica(check.id),
    eventOf: (load) => (load.state === 'ready' ? { type: 'check_failed', failure } : null),
  })
  await checks.fail(check.id)
}

/** Null: it was lost meanwhile, or there is nothing to check any more. */
async function whileHeld<T>(check: DueCheck, means: Means, work: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
  const { checks, holder, clock, signal } = means
  const lost = new AbortController()
  const done = new AbortController()
  const renew = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(renewEveryMs, AbortSignal.any([done.signal, signal]))
      if (!(await checks.keep(check.id, { holder, forMs: leaseMs }))) return lost.abort()
    }
  }
  // A database that is away loses the lease by itself; what comes of it is written by whoever has it then.
  renew().catch(() => undefined)
  try {
    return await work(AbortSignal.any([lost.signal, signal]))
  } catch (error) {
    if (lost.signal.aborted || signal.aborted) return null
    throw error
  } finally {
    done.abort()
  }
}
