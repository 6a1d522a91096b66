// Accepts or refuses a command. An accepted command is in the journal before its sender gets the reply; a refused one leaves
// no trace.
import { settlesWithin } from '@muster/host'
import { failureOf, type BackendName, type Failure } from '@muster/protocol'
import { decide } from './admission.pure.ts'
import { intentOf, type BackendCommand, type Outcome } from './backend-command.ts'
import type { Executor } from './executor.ts'
import type { Installer } from './installer.ts'
import { acceptedIntentOf, statusOf, type Work } from './ledger.ts'
import { type ExecutorDeps, requestOf } from './run-operation.ts'

export type Submitted =
  /** `ended` rejects when this worker stops before the work is done. */
  Readonly<{ accepted: true; ended: Promise<Outcome> }> | Readonly<{ accepted: false; failure: Failure }>

/** The check for commands that can never succeed must not delay the reply by more. */
const refusalWaitMs = 1_000

export type AdmissionDeps = ExecutorDeps & Readonly<{ executor: Executor }>

export function createAdmission(deps: AdmissionDeps): (command: BackendCommand) => Promise<Submitted> {
  const { ledger, executor, installer, step } = deps
  return async (received) => {
    await step('W.recv')
    if (executor.isStopping()) return refused({ code: 'unavailable', retry: 'backoff', message: 'this worker is stopping; try again' })
    const command: BackendCommand = { ...received, backend: await canonicalName(received.backend, deps) }
    const holds = await resultHolds(ledger.ofBackend(command.backend).at(-1), installer)
    const verdictNow = () => decide(intentOf(command), { accepted: ledger.ofBackend(command.backend).map(acceptedIntentOf), holds })
    if (verdictNow().do === 'accept') {
      const refusal = await refusalOf(command, deps)
      if (refusal !== null) return refused(refusal)
    }
    // Decided again and acted upon in the same turn: the same command may have arrived twice meanwhile.
    const verdict = verdictNow()
    if (verdict.do === 'refuse') return refused(verdict.failure)
    const work = verdict.do === 'accept' ? null : ledger.get(verdict.id)
    return work === null ? await accept(command, verdict.do === 'accept' ? verdict.cancels : [], deps) : await join(work, command, deps)
  }
}

/**
 * Resolved once and stored with the command: a name may lead to another backend as soon as the command has run, and a
 * removal that is resumed after a restart must not remove that one.
 */
async function canonicalName(name: BackendName, { ledger, installer, log }: AdmissionDeps): Promise<BackendName> {
  const listed = await installer.listedName(name).catch((error: unknown) => {
    log.warn('cannot read the installed backends', { backend: name, error })
    return null
  })
  return listed === name ? name : (ledger.canonicalName(name) ?? listed ?? name)
}

async function accept(command: BackendCommand, cancels: readonly number[], { ledger, executor }: AdmissionDeps): Promise<Submitted> {
  const work = ledger.add(command)
  const ended = executor.start(work)
  try {
    await executor.stored(work)
  } catch (error) {
    return refused(failureOf(error))
  }
  const failure: Failure = { code: 'superseded', retry: 'never', message: `superseded by a newer ${command.kind} of ${command.backend}` }
  for (const older of cancels.map((id) => ledger.get(id))) if (older !== null) void executor.cancel(older, failure)
  return { accepted: true, ended }
}

async function join(
  work: Work,
  { op_id, epoch }: BackendCommand,
  { ledger, journal, executor, publisher }: AdmissionDeps,
): Promise<Submitted> {
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
  // The sender waits for the event, also when the work has ended.
  if (work.end !== null && op_id !== undefined) publisher.publishResult(statusOf(op_id, work))
  return { accepted: true, ended }
}

/** An administrator may have removed the backend by hand since. */
async function resultHolds(newest: Work | undefined, installer: Installer): Promise<boolean> {
  if (newest?.end?.outcome.state !== 'succeeded') return false
  const isThere = await installer.isInstalled(newest.command.backend, newest.end.outcome.digest)
  return isThere === (newest.command.kind !== 'delete')
}

async function refusalOf(command: BackendCommand, { installer, clock }: AdmissionDeps): Promise<Failure | null> {
  if (command.kind === 'delete') return null
  const refusal = installer.refusal(requestOf(command)).catch((error: unknown) => failureOf(error))
  return (await settlesWithin({ clock, ms: refusalWaitMs }, refusal)) ? await refusal : null
}

const refused = (failure: Failure): Submitted => ({ accepted: false, failure })
