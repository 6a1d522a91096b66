// Asks new replicas something before they get requests, where others serve as long as they do not. Any controller takes
// those that are due, by lease; what one that died had is taken over.
import type { Clock, Log } from '@muster/host'
import type { Failure } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import type { LoadStore } from '../store/loads.ts'
import type { DueCheck, ReplicaCheckStore } from '../store/replica-checks.ts'
import { createEngine, type Engine } from '../work/engine.ts'
import { claimLeaseMs, withLease } from '../work/lease.ts'
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
/** Each makes an engine work: not so many that they disturb those that serve. */
const atOnce = 4
/** Who could not be asked is asked again; a process that died meanwhile is told by its worker. */
const againInMs = 1_000
const patienceMs = 30_000

export function createReplicaChecks(deps: CheckDeps): Engine {
  const { checks, holder } = deps
  const asker = createReplicaAsker({ silenceMs, controllerId: holder })
  const engine = createEngine<DueCheck>(
    {
      what: 'cannot check new replicas; retrying',
      lanes: atOnce,
      batch: 1,
      claim: (limit) => checks.take({ holder, leaseMs: claimLeaseMs, limit }),
      run: (check, signal) => checkOne(check, { ...deps, asker, signal }),
      nextMs: async () => (await checks.nextDue()) ?? Infinity,
    },
    deps,
  )
  return {
    wake: engine.wake,
    async run(signal) {
      await engine.run(signal)
      await asker.close()
    },
  }
}

type Means = CheckDeps & Readonly<{ asker: ReplicaAsker; signal: AbortSignal }>

async function checkOne(check: DueCheck, means: Means): Promise<void> {
  const { checks, holder, clock, log } = means
  const about = { model: check.model, replica: check.id, node: check.nodeName }
  const renew = (): Promise<boolean> => checks.keep(check.id, { holder, forMs: claimLeaseMs })
  const verdict = await withLease({ renew, clock, signal: means.signal }, (signal) => ask(check, means, signal))
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
  if (!(await checks.keep(check.id, { holder, forMs: claimLeaseMs }))) return
  const failure: Failure = { code: 'internal', retry: 'backoff', message: `the check of the new replica failed: ${cause}`.slice(0, 8192) }
  log.warn('a new replica failed its check', { model: check.model, replica: check.id, node: check.nodeName, cause })
  await advance({
    read: () => loads.findByReplica(check.id),
    eventOf: (load) => (load.state === 'ready' ? { type: 'check_failed', failure } : null),
  })
  await checks.fail(check.id)
}
