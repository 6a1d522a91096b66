// Runs one piece of work to its end. The outcome is in the journal before it is reported.
import type { Clock, Log, Step } from '@muster/host'
import { Digest, type Failure, failureOf, FleetError, unreachable } from '@muster/protocol'
import type { EventPublisher, ProgressReporter } from '../work/reports.ts'
import type { ByteBudget } from './byte-budget.ts'
import type { InstallContext, Installer, InstallOutcome, InstallRequest } from './installer.ts'
import type { BackendCommand, Journal, Outcome } from './journal.ts'
import { type Ledger, statusOf, type Work } from './ledger.ts'
import type { Turn } from './executor.ts'

export type ExecutorDeps = Readonly<{
  ledger: Ledger
  journal: Journal
  publisher: EventPublisher
  installer: Installer
  clock: Clock
  log: Log
  step: Step
}>

/** The state of work while this process runs it. */
export type RunningWork = {
  readonly stored: Promise<void>
  readonly ended: PromiseWithResolvers<Outcome>
  readonly abort: AbortController
  readonly turn: Turn
  readonly reporter: ProgressReporter
  isRunning: boolean
}

/** A shorter journal is not worth rewriting. */
const shortJournalLines = 1_000
export const notEnded: Failure = { code: 'unavailable', retry: 'backoff', message: 'this worker stopped before it was done' }

type RunDeps = ExecutorDeps & Readonly<{ budget: ByteBudget }>

/** Never rejects. */
export async function runOperation(work: Work, live: RunningWork, deps: RunDeps): Promise<void> {
  const { ledger, journal, log } = deps
  try {
    await live.stored
  } catch (error) {
    ledger.remove(work)
    return leave(live, error)
  }
  const outcome = await execute(work, live, deps)
  const isForgotten = (): boolean => ledger.get(work.id) !== work
  // The next start resumes it.
  if (outcome === null || isForgotten()) return leave(live, new FleetError(notEnded))
  live.reporter.end(outcome.state)
  const end = { outcome, boot: ledger.boot() }
  await journal
    .append({ type: 'end', id: work.id, ...end })
    .catch((error: unknown) => log.error('cannot store the end of an operation', { error }))
  work.end = end
  if (isForgotten()) return leave(live, new FleetError(notEnded))
  log.info('operation ended', { ...workFields(work), ...outcome })
  live.turn.end()
  await reportEnd(work, live, deps)
  ledger.prune()
  if (journal.lines() > Math.max(shortJournalLines, 4 * ledger.size())) await compactJournal(deps)
}

/** Null: neither done nor cancelled, because this worker stops. */
async function execute(work: Work, live: RunningWork, { installer, budget, log, step }: RunDeps): Promise<Outcome | null> {
  const { signal } = live.abort
  try {
    await live.turn.ready
    signal.throwIfAborted()
    live.isRunning = true
    const { report: onProgress, sign: onSign, wait: onWait } = live.reporter
    const context = { onProgress, onSign, onWait, step, signal, budget: budget.openAccount() }
    return { state: 'succeeded', ...(await perform(work.command, { installer, context })) }
  } catch (error) {
    if (signal.aborted) return work.cancelFailure === null ? null : { state: 'cancelled', failure: work.cancelFailure }
    if (!(error instanceof FleetError)) log.error('operation failed unexpectedly', { ...workFields(work), error })
    const failure = failureOf(error)
    return { state: 'failed', failure: { ...failure, message: failure.message.slice(0, 8192) } }
  }
}

async function reportEnd(work: Work, live: RunningWork, { publisher, step, log }: RunDeps): Promise<void> {
  const at = async (name: string): Promise<void> => {
    try {
      await step(name)
    } catch (error) {
      log.error('step failed', { step: name, error })
    }
  }
  await at('W.reply.before')
  if (work.end !== null) live.ended.resolve(work.end.outcome)
  for (const opId of work.opIds) publisher.publishResult(statusOf(opId, work))
  publisher.publishInventory()
  await at('W.reply.after')
}

function leave(live: RunningWork, reason: unknown): void {
  live.turn.end()
  live.reporter.end('left')
  live.ended.reject(reason)
}

export async function compactJournal({ journal, ledger, log }: Pick<RunDeps, 'journal' | 'ledger' | 'log'>): Promise<void> {
  await journal.rewrite(ledger.entries).catch((error: unknown) => log.warn('cannot compact the journal of operations', { error }))
}

export function workFields({ command: { kind, backend, op_id, generation } }: Work): Record<string, unknown> {
  return { kind, backend, op_id, generation }
}

type Success = Omit<Extract<Outcome, { state: 'succeeded' }>, 'state'>
type InstallTools = Readonly<{ installer: Installer; context: InstallContext }>

/**
 * Content that is installed already is verified, repaired if it is damaged, and not fetched again. A command succeeds only when
 * the installer confirms the result.
 */
export async function perform(command: BackendCommand, tools: InstallTools): Promise<Success> {
  switch (command.kind) {
    case 'delete':
      return await remove(command, tools)
    case 'upgrade':
      return await upgrade(await underListedName(command, tools), tools)
    case 'install':
      return await install(await underListedName(command, tools), tools)
    default:
      return unreachable(command.kind)
  }
}

/** The backend may have been installed under another of its names since the command was accepted. */
async function underListedName(command: BackendCommand, { installer }: InstallTools): Promise<BackendCommand> {
  return { ...command, backend: (await installer.listedName(command.backend)) ?? command.backend }
}

export function requestOf(command: BackendCommand): InstallRequest {
  const { backend, kind, force, uri, mirrors, version, gallery_url: galleryUrl, digest, name, alias, strategy } = command
  const mode = kind === 'upgrade' ? 'upgrade' : force === true ? 'reinstall' : 'install'
  return { backend, mode, uri, mirrors, version, galleryUrl, digest, name, alias, strategy }
}

async function install(command: BackendCommand, tools: InstallTools): Promise<Success> {
  const { installer, context } = tools
  const { force = false, digest } = command
  context.onProgress({ phase: 'resolving' })
  if (!force && (await suffices(command, installer)) && (await makeIntact(command, tools))) return await currentVersion(command, installer)
  const outcome = await installer.install(requestOf(command), context)
  return await confirmResult(command, installer, { ...outcome, wanted: digest ?? outcome.digest })
}

/** Any version suffices unless the command is exact; an exact version that has a URI and no digest must be resolved first. */
async function suffices({ backend, digest, exact = false }: BackendCommand, installer: Installer): Promise<boolean> {
  if (!exact) return await installer.isInstalled(backend)
  return digest !== undefined && (await installer.isInstalled(backend, digest))
}

/** False when the version in place is damaged and its source cannot repair it: then the source of the command is used. */
async function makeIntact({ backend }: BackendCommand, { installer, context }: InstallTools): Promise<boolean> {
  if ((await installer.verify(backend, context)) === 'intact') return true
  try {
    await installer.repair(backend, context)
    return true
  } catch {
    context.signal.throwIfAborted()
    return false
  }
}

async function upgrade(command: BackendCommand, tools: InstallTools): Promise<Success> {
  const { installer, context } = tools
  const { backend, digest } = command
  context.onProgress({ phase: 'resolving' })
  const isCurrent = digest !== undefined && (await installer.isInstalled(backend, digest))
  // An interrupted or a rolling command may have installed it already; processes of other versions must still go.
  if (isCurrent && command.strategy === 'recreate') await installer.stopOutdated(backend, context)
  if (isCurrent && (await makeIntact(command, tools))) return await currentVersion(command, installer)
  const outcome = await installer.install(requestOf(command), context)
  return await confirmResult(command, installer, { ...outcome, wanted: digest ?? outcome.digest })
}

async function remove(command: BackendCommand, { installer, context }: InstallTools): Promise<Success> {
  context.onProgress({ phase: null })
  await installer.remove(command.backend, context)
  if (await installer.isInstalled(command.backend)) throw notInPlace(command, 'it is still installed')
  return {}
}

async function confirmResult(
  command: BackendCommand,
  installer: Installer,
  outcome: InstallOutcome & { wanted: Digest },
): Promise<Success> {
  const { wanted, digest, version } = outcome
  if (!(await installer.isInstalled(command.backend, wanted))) throw notInPlace(command, `${wanted} is not installed`)
  return { digest, ...(command.digest === undefined ? { source_digest: digest } : {}), version: version.slice(0, 256) }
}

async function currentVersion({ backend, digest: requested }: BackendCommand, installer: Installer): Promise<Success> {
  if (requested !== undefined) await installer.listAs(backend, requested)
  const found = (await installer.inventory()).find(({ name }) => name === backend)
  const digest = Digest.safeParse(found?.digest)
  return { ...(digest.success ? { digest: digest.data } : {}), ...(found === undefined ? {} : { version: found.version }) }
}

const notInPlace = ({ kind, backend }: BackendCommand, because: string): FleetError =>
  new FleetError({ code: 'integrity', retry: 'backoff', message: `the ${kind} of ${backend} ended, but ${because}` })
