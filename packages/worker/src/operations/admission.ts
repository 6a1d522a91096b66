// Whether a command is taken on. It is in the journal before anybody hears that it is; what is refused
// leaves no trace.
import type { Clock, Log } from '@muster/host'
import { failureOf, type BackendName, type Failure } from '@muster/protocol'
import type { Announcer } from './announcer.ts'
import { decide } from './decide.ts'
import type { Executor } from './executor.ts'
import type { Installer, Step } from './installer.ts'
import type { Journal } from './journal.ts'
import type { Ledger } from './ledger.ts'
import { wishOf, type Order, type Outcome } from './order.ts'
import { requestOf } from './perform.ts'
import { statusOf } from './status.ts'
import { knownOf, type Work } from './work.ts'

export type Submitted =
  /** `ended` rejects when this worker stops before the work is done. */
  Readonly<{ accepted: true; ended: Promise<Outcome> }> | Readonly<{ accepted: false; failure: Failure }>

/** Looking whether something can be installed at all must not hold up the answer. */
const refusalWaitMs = 1_000

export type Admission = Readonly<{
  ledger: Ledger
  journal: Journal
  executor: Executor
  installer: Installer
  announcer: Announcer
  clock: Clock
  log: Log
  step: Step
}>

export function createAdmission(deps: Admission): (asked: Order) => Promise<Submitted> {
  const { ledger, executor, installer, step } = deps
  return async (asked) => {
    await step('W.recv')
    if (executor.isStopping()) return refused({ code: 'unavailable', retry: 'backoff', message: 'this worker is stopping; try again' })
    const order: Order = { ...asked, backend: await rowNameOf(asked.backend, deps) }
    const holds = await stillHolds(ledger.row(order.backend).at(-1), installer)
    const verdictNow = () => decide(wishOf(order), { row: ledger.row(order.backend).map(knownOf), holds })
    if (verdictNow().do === 'accept') {
      const refusal = await refusalOf(order, deps)
      if (refusal !== null) return refused(refusal)
    }
    // Decided anew, and acted upon in the same turn: the same command may have come twice meanwhile.
    const verdict = verdictNow()
    if (verdict.do === 'refuse') return refused(verdict.failure)
    const work = verdict.do === 'accept' ? null : ledger.get(verdict.id)
    return work === null ? await accept(order, verdict.do === 'accept' ? verdict.cancels : [], deps) : await share(work, order, deps)
  }
}

/**
 * Settled once and for all, and noted with the order: a name may lead elsewhere as soon as the order is carried out, and
 * whoever is told to remove the one must not come back and take the other.
 */
async function rowNameOf(asked: BackendName, { ledger, installer, log }: Admission): Promise<BackendName> {
  const listed = await installer.listedName(asked).catch((error: unknown) => {
    log.warn('what is installed could not be read', { backend: asked, error })
    return null
  })
  return listed === asked ? asked : (ledger.rowNameOf(asked) ?? listed ?? asked)
}

async function accept(order: Order, cancels: readonly number[], { ledger, executor }: Admission): Promise<Submitted> {
  const work = ledger.add(order)
  const ended = executor.start(work)
  try {
    await executor.stored(work)
  } catch (error) {
    return refused(failureOf(error))
  }
  const failure: Failure = { code: 'superseded', retry: 'never', message: `superseded by a newer ${order.kind} of ${order.backend}` }
  for (const older of cancels.map((id) => ledger.get(id))) if (older !== null) void executor.callOff(older, failure)
  return { accepted: true, ended }
}

async function share(work: Work, { op_id, epoch }: Order, { ledger, journal, executor, announcer }: Admission): Promise<Submitted> {
  const ended = executor.ended(work)
  ended.catch(() => undefined)
  const isNewOp = op_id !== undefined && !work.opIds.has(op_id)
  const isNewEpoch = epoch !== undefined && epoch > (work.epoch ?? -1)
  try {
    await executor.stored(work)
    if (isNewOp || isNewEpoch) {
      const entry = { type: 'join' as const, id: work.id, ...(isNewOp ? { op_id } : {}), ...(isNewEpoch ? { epoch } : {}) }
      ledger.apply(entry)
      await journal.append(entry)
    }
  } catch (error) {
    return refused(failureOf(error))
  }
  // Whoever asks for what is done waits for the event that says so.
  if (work.end !== null && op_id !== undefined) announcer.result(statusOf(op_id, work))
  return { accepted: true, ended }
}

/** Somebody may have removed it since, by hand. */
async function stillHolds(newest: Work | undefined, installer: Installer): Promise<boolean> {
  if (newest?.end?.outcome.state !== 'succeeded') return false
  const isThere = await installer.isInstalled(newest.order.backend, newest.end.outcome.digest)
  return isThere === (newest.order.kind !== 'delete')
}

async function refusalOf(order: Order, { installer, clock }: Admission): Promise<Failure | null> {
  if (order.kind === 'delete') return null
  const answered = new AbortController()
  const tooLong = clock.sleep(refusalWaitMs, answered.signal).then(
    () => null,
    () => null,
  )
  try {
    return await Promise.race([installer.refusal(requestOf(order)), tooLong])
  } catch (error) {
    return failureOf(error)
  } finally {
    answered.abort()
  }
}

const refused = (failure: Failure): Submitted => ({ accepted: false, failure })
