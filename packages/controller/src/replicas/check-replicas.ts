// Replica checks as work of the engine: a replica that starts beside serving ones answers a check question before it gets
// requests. Any controller claims due checks by lease; the checks of a dead controller are claimed again.
import type { Clock, Log } from '@muster/host'
import type { Failure } from '@muster/protocol'
import type { Advance } from '../loads/advance.ts'
import type { LoadStore } from '../store/loads.ts'
import type { DueCheck, ReplicaCheckStore } from '../store/replica-checks.ts'
import { createEngine, type Engine } from '../work/engine.ts'
import { claimLeaseMs, withLease } from '../work/lease.ts'
import { createCheckClient, type CheckClient } from './check-client.ts'
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

/** A backend without a GPU may need long for its first tokens; after this time without an answer the check fails. */
const silenceMs = 60_000
/** Every check makes a backend work: few at once, so that serving replicas are not disturbed. */
const lanes = 4
/** A replica that could not be reached is checked again; its worker reports a process that died. */
const againInMs = 1_000
const patienceMs = 30_000

export function createReplicaChecks(deps: CheckDeps): Engine {
  const { checks, holder } = deps
  const client = createCheckClient({ silenceMs, controllerId: holder })
  const engine = createEngine<DueCheck>(
    {
      what: 'cannot check new replicas; retrying',
      lanes,
      batch: 1,
      claim: (limit) => checks.take({ holder, leaseMs: claimLeaseMs, limit }),
      run: (check, signal) => checkOne(check, { ...deps, client, signal }),
      nextMs: async () => (await checks.nextDue()) ?? Infinity,
    },
    deps,
  )
  return {
    wake: engine.wake,
    async run(signal) {
      await engine.run(signal)
      await client.close()
    },
  }
}

type Means = CheckDeps & Readonly<{ client: CheckClient; signal: AbortSignal }>

async function checkOne(check: DueCheck, means: Means): Promise<void> {
  const { checks, holder, clock, log } = means
  const about = { model: check.model, replica: check.id, node: check.nodeName }
  const renew = (): Promise<boolean> => checks.keep(check.id, { holder, forMs: claimLeaseMs })
  const verdict = await withLease({ renew, clock, signal: means.signal }, (signal) => runCheck(check, means, signal))
  switch (verdict?.is) {
    case undefined:
      return log.debug('replica check was taken over', about)
    case 'passed':
    case 'not_served':
      if (await checks.pass(check.id, holder)) log.info('replica check passed', about)
      return
    case 'unclear':
      // A replica on an absent node does not fail its check.
      if (check.elapsedMs > patienceMs && (await checks.isDue(check.id)))
        return await fail(check, `it could not be reached: ${verdict.why}`, means)
      log.debug('replica could not be reached for its check', { ...about, why: verdict.why })
      await checks.keep(check.id, { holder, forMs: againInMs })
      return
    case 'failed':
      return await fail(check, verdict.cause, means)
  }
}

/** Verdict of the first question that the replica serves. A replica that serves none of them passes. */
async function runCheck(check: DueCheck, { client }: Means, signal: AbortSignal): Promise<Verdict> {
  for (const question of questionsFor(check)) {
    const verdict = judge(question, await client.request(check, question, signal))
    if (verdict.is !== 'not_served') return verdict
  }
  return { is: 'not_served' }
}

async function fail(check: DueCheck, cause: string, { checks, loads, advance, holder, log }: Means): Promise<void> {
  // The controller that has the lease now decides.
  if (!(await checks.keep(check.id, { holder, forMs: claimLeaseMs }))) return
  const failure: Failure = { code: 'internal', retry: 'backoff', message: `the check of the new replica failed: ${cause}`.slice(0, 8192) }
  log.warn('replica check failed', { model: check.model, replica: check.id, node: check.nodeName, cause })
  await advance({
    read: () => loads.findByReplica(check.id),
    eventOf: (load) => (load.state === 'ready' ? { type: 'check_failed', failure } : null),
  })
  await checks.fail(check.id)
}
