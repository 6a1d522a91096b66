// The operations of a worker: commands it accepted, the order in which they run, and their outcomes. An accepted command is
// in the journal and comes to an end, also over restarts. Operations outlive connections to the bus.
import { noStep, type Clock, type Log, type Step } from '@muster/host'
import { failureOf, type BackendList, type Failure, type NodeId, type OperationId, type StoredFile } from '@muster/protocol'
import { createEventPublisher, type EventPublisher, type NodeBus, type OutgoingEvent } from '../work/event-publisher.ts'
import type { RegisteredWork, WorkRegistry } from '../work/work-registry.ts'
import { createAdmission, type Submitted } from './admission.ts'
import type { BackendCommand } from './backend-command.ts'
import { createExecutor, type Executor } from './executor.ts'
import type { Installer } from './installer.ts'
import { openJournal, type Journal } from './journal.ts'
import { createLedger, statusOf, type Ledger, type OperationIndex, type Work } from './ledger.ts'

export interface Operations {
  /** Resolves when the command is stored, or refused and nothing changed. */
  submit(command: BackendCommand): Promise<Submitted>
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

async function readInventory({ installer, files, log }: OperationsDeps): Promise<BackendList> {
  // A list that cannot be read is left out: an absent list does not mean that there are no files.
  const stored = await files?.().catch((error: unknown) => log.warn('cannot list model files', { error }))
  const listed = stored === undefined ? {} : { files: [...stored] }
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
