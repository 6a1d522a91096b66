// The operations of a worker: commands it accepted, the order in which they run, and their outcomes. An accepted command is
// in the journal and comes to an end, also over restarts. Operations outlive connections to the bus.
import { type Clock, type Log, noStep, settlesWithin, type Step } from '@muster/host'
import {
  type BackendList,
  type BackendName,
  type Failure,
  failureOf,
  type NodeId,
  type OperationId,
  type StoredFile,
} from '@muster/protocol'
import { createEventPublisher, type EventPublisher, type NodeBus, type OutgoingEvent } from '../work/reports.ts'
import type { RegisteredWork, WorkRegistry } from '../work/work-registry.ts'
import { decide } from './admission.pure.ts'
import { createExecutor, type Executor } from './executor.ts'
import type { Installer } from './installer.ts'
import { type BackendCommand, intentOf, type Journal, openJournal, type Outcome } from './journal.ts'
import { acceptedIntentOf, createLedger, type Ledger, type OperationIndex, statusOf, type Work } from './ledger.ts'
import { type ExecutorDeps, requestOf } from './run-operation.ts'

export interface Operations {
  /** Resolves when the command is stored, or refused and nothing changed. */
  submit(command: BackendCommand): Promise<SubmitResult>
  active(): readonly OperationId[]
  inventory(): Promise<BackendList>
  /** Publishes the inventory after a change that no operation made. */
  inventoryChanged(): void
  /** Publishes on this bus from now on; returns how to detach. The first call resumes the work of an earlier run. */
  attach(nodeBus: NodeBus): () => void
  /** The node was removed from its cluster: drops all operations. Files stay. */
  forget(): void
  /** Leaves running work to the next start. */
  stop(): Promise<void>
}

export type OperationsDeps = Readonly<{
  path: string
  installer: Installer
  work: WorkRegistry
  /** The content of model files on this machine; absent: the inventory has none. */
  files?: () => Promise<readonly StoredFile[]>
  /** Facts about these files, for the inventory. */
  fileFacts?: (files: readonly StoredFile[]) => Promise<Pick<BackendList, 'file_facts' | 'named_files'>>
  clock: Clock
  log: Log
  step?: Step | undefined
}>

export async function openOperations(deps: OperationsDeps): Promise<Operations> {
  const { path, installer, clock, log, step = noStep } = deps
  const opened = await openJournal({ path, log })
  if (opened.state === 'newer') {
    const inventory = (): Promise<BackendList> => readInventory(deps)
    return readOnly(opened, createEventPublisher({ recent: () => [], inventory, clock, log }), inventory)
  }
  const registered = registerIn(deps.work, () => executor)
  const ledger = createLedger(opened.entries, registered)
  const inventory = async (): Promise<BackendList> => {
    // The generations first, so that the list is no older than they are.
    const generations = ledger.generations()
    return { ...(await readInventory(deps)), generations }
  }
  const { journal } = opened
  const boot = ledger.boot() + 1
  ledger.apply({ type: 'boot', boot })
  await journal.append({ type: 'boot', boot }).catch((error: unknown) => log.warn('cannot store the start of this worker', { error }))
  const recent = (): OutgoingEvent[] =>
    ledger.recentResults().flatMap((work) => [...work.opIds].map((opId): OutgoingEvent => ({ type: 'op.result', ...statusOf(opId, work) })))
  const publisher = createEventPublisher({ recent, inventory, clock, log })
  const executor: Executor = createExecutor({ ledger, journal, publisher, installer, clock, log, step })
  let isResumed = false
  return {
    submit: createAdmission({ ledger, journal, executor, installer, publisher, clock, log, step }),
    inventory,
    inventoryChanged: publisher.publishInventory,
    active: () => ledger.unfinished().flatMap(({ opIds }) => [...opIds]),
    attach(nodeBus) {
      if (ledger.node() !== null && ledger.node() !== nodeBus.nodeId) executor.forget()
      if (ledger.node() === null) storeNode(nodeBus.nodeId, { ledger, journal, log })
      const detach = publisher.attach(nodeBus)
      if (!isResumed) executor.resume()
      isResumed = true
      return detach
    },
    forget: executor.forget,
    async stop() {
      await executor.stop()
      await journal.close()
    },
  }
}

/** Makes work of the ledger known by its operation IDs. */
function registerIn(registry: WorkRegistry, executor: () => Executor): OperationIndex {
  const registered = new WeakMap<Work, RegisteredWork>()
  const registeredOf = (work: Work): RegisteredWork => {
    const known = registered.get(work) ?? {
      status: (opId) => statusOf(opId, work, executor().progressOf(work)),
      async cancel() {
        if (work.end !== null) return
        await executor().cancel(work, { code: 'cancelled', retry: 'never', message: 'cancelled on request' })
        await executor().ended(work)
      },
    }
    registered.set(work, known)
    return known
  }
  return {
    add: (opId, work) => registry.register(opId, registeredOf(work)),
    remove: (opId, work) => registry.release(opId, registeredOf(work)),
  }
}

async function readInventory({ installer, files, fileFacts, log }: OperationsDeps): Promise<BackendList> {
  // A list that cannot be read is left out: an absent list does not mean that there are no files.
  const stored = await files?.().catch((error: unknown) => log.warn('cannot list model files', { error }))
  const about =
    stored === undefined
      ? undefined
      : await fileFacts?.(stored).catch((error: unknown) => log.warn('cannot describe model files', { error }))
  const listed = stored === undefined ? {} : { files: [...stored], ...about }
  try {
    return { backends: [...(await installer.inventory())], ...listed }
  } catch (error) {
    return { backends: [], ...listed, error: failureOf(error).message }
  }
}

function storeNode(node: NodeId, { ledger, journal, log }: { ledger: Ledger; journal: Journal; log: Log }): void {
  ledger.apply({ type: 'node', node })
  journal.append({ type: 'node', node }).catch((error: unknown) => log.warn('cannot store the node ID', { error }))
}

function readOnly(
  { format, path }: { format: number; path: string },
  publisher: EventPublisher,
  inventory: () => Promise<BackendList>,
): Operations {
  const message = `${path} was written by a newer version of Muster (format ${format}): run that version on this worker again`
  const failure: Failure = { code: 'incompatible', retry: 'backoff', message }
  return {
    submit: async () => ({ accepted: false, failure }),
    active: () => [],
    inventory,
    inventoryChanged: publisher.publishInventory,
    attach: publisher.attach,
    forget: () => undefined,
    stop: async () => undefined,
  }
}

type SubmitResult =
  /** `ended` rejects when this worker stops before the work is done. */
  Readonly<{ accepted: true; ended: Promise<Outcome> }> | Readonly<{ accepted: false; failure: Failure }>

/** The check for commands that can never succeed must not delay the reply by more. */
const refusalWaitMs = 1_000

type AdmissionDeps = ExecutorDeps & Readonly<{ executor: Executor }>

/**
 * Accepts or refuses a command. An accepted command is in the journal before its sender gets the reply; a refused one leaves no
 * trace.
 */
function createAdmission(deps: AdmissionDeps): (command: BackendCommand) => Promise<SubmitResult> {
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

async function accept(command: BackendCommand, cancels: readonly number[], { ledger, executor }: AdmissionDeps): Promise<SubmitResult> {
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
): Promise<SubmitResult> {
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

/** An administrator may have removed the backend by hand since, or its files. */
async function resultHolds(newest: Work | undefined, installer: Installer): Promise<boolean> {
  if (newest?.end?.outcome.state !== 'succeeded') return false
  const { backend, kind } = newest.command
  const isThere = await installer.isInstalled(backend, newest.end.outcome.digest)
  if (!isThere || kind === 'delete') return isThere === (kind !== 'delete')
  return !(await installer.inventory()).some(({ name, damaged }) => name === backend && damaged === true)
}

async function refusalOf(command: BackendCommand, { installer, clock }: AdmissionDeps): Promise<Failure | null> {
  if (command.kind === 'delete') return null
  const refusal = installer.refusal(requestOf(command)).catch((error: unknown) => failureOf(error))
  return (await settlesWithin({ clock, ms: refusalWaitMs }, refusal)) ? await refusal : null
}

const refused = (failure: Failure): SubmitResult => ({ accepted: false, failure })
