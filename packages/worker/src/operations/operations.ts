// The operations of a worker: what it accepts, in which order it is done, and what came of it. A command
// is accepted when it is in the journal; from then on it comes to an end, also over restarts. Operations
// outlive connections to the bus.
import type { Clock, Log } from '@muster/host'
import {
  failureOf,
  type BackendList,
  type Failure,
  type NodeId,
  type OperationId,
  type OpStatusReply,
  type StoredFile,
} from '@muster/protocol'
import { createAdmission, type Submitted } from './admission.ts'
import { createAnnouncer, type Announcer, type Said, type Voice } from './announcer.ts'
import { createExecutor } from './executor.ts'
import type { Installer, Step } from './installer.ts'
import { openJournal, type Journal } from './journal.ts'
import { createLedger, type Ledger } from './ledger.ts'
import type { Order } from './order.ts'
import { statusOf } from './status.ts'

export interface Operations {
  /** Resolves when the command is accepted durably, or refused and nothing changed. */
  submit(order: Order): Promise<Submitted>
  status(opId: OperationId): OpStatusReply
  /** Resolves when it has ended, and after a second in any case. */
  cancel(opId: OperationId): Promise<OpStatusReply>
  active(): readonly OperationId[]
  inventory(): Promise<BackendList>
  /** Something else than an operation changed what there is to list: whoever listens is told. */
  inventoryChanged(): void
  /** From now on it speaks there; returns how to fall silent. What an earlier run left is taken up with the first. */
  attach(voice: Voice): () => void
  /** The node was removed from its cluster: what was wished there counts no more. Files stay. */
  forget(): void
  /** Leaves what runs to the next start. */
  stop(): Promise<void>
}

export type OperationsDeps = Readonly<{
  path: string
  installer: Installer
  /** Content of model files that is kept here; without it nothing is said of them. */
  files?: () => Promise<readonly StoredFile[]>
  clock: Clock
  log: Log
  step?: Step
}>

const cancelWaitMs = 1_000
const noStep: Step = () => undefined

export async function openOperations(deps: OperationsDeps): Promise<Operations> {
  const { path, installer, clock, log, step = noStep } = deps
  const opened = await openJournal({ path, log })
  if (opened.state === 'newer') {
    const inventory = (): Promise<BackendList> => readInventory(deps)
    return readOnly(opened, createAnnouncer({ recent: () => [], inventory, clock, log }), inventory)
  }
  const ledger = createLedger(opened.entries)
  const inventory = async (): Promise<BackendList> => {
    // First, so that the list is no older than the generations it is said with.
    const generations = ledger.generations()
    return { ...(await readInventory(deps)), generations }
  }
  const { journal } = opened
  const boot = ledger.boot() + 1
  ledger.apply({ type: 'boot', boot })
  await journal.append({ type: 'boot', boot }).catch((error: unknown) => log.warn('the start was not noted', { error }))
  const recent = (): Said[] =>
    ledger.recentResults().flatMap((work) => [...work.opIds].map((opId): Said => ({ type: 'op.result', ...statusOf(opId, work) })))
  const announcer = createAnnouncer({ recent, inventory, clock, log })
  const executor = createExecutor({ ledger, journal, announcer, installer, clock, log, step })
  const status = (opId: OperationId): OpStatusReply => {
    const work = ledger.byOp(opId)
    return statusOf(opId, work, work === null ? null : executor.progressOf(work))
  }
  let isResumed = false
  const admit = createAdmission({ ledger, journal, executor, installer, announcer, clock, log, step })
  return {
    submit: admit,
    inventory,
    inventoryChanged: announcer.inventory,
    active: () => ledger.unfinished().flatMap(({ opIds }) => [...opIds]),
    status,
    async cancel(opId) {
      const work = ledger.byOp(opId)
      if (work !== null && work.end === null) {
        await executor.callOff(work, { code: 'cancelled', retry: 'never', message: 'cancelled on request' })
        const waited = new AbortController()
        const tooLong = clock.sleep(cancelWaitMs, waited.signal).catch(() => undefined)
        await Promise.race([executor.ended(work).catch(() => undefined), tooLong])
        waited.abort()
      }
      return status(opId)
    },
    attach(voice) {
      if (ledger.node() !== null && ledger.node() !== voice.nodeId) executor.forget()
      if (ledger.node() === null) noteNode(voice.nodeId, { ledger, journal, log })
      const detach = announcer.attach(voice)
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

async function readInventory({ installer, files, log }: OperationsDeps): Promise<BackendList> {
  // What could not be read is left out: nobody concludes from it that there is nothing.
  const kept = await files?.().catch((error: unknown) => log.warn('the content of model files could not be listed', { error }))
  const listed = kept === undefined ? {} : { files: [...kept] }
  try {
    return { backends: [...(await installer.inventory())], ...listed }
  } catch (error) {
    return { backends: [], ...listed, error: failureOf(error).message }
  }
}

function noteNode(node: NodeId, { ledger, journal, log }: { ledger: Ledger; journal: Journal; log: Log }): void {
  ledger.apply({ type: 'node', node })
  journal.append({ type: 'node', node }).catch((error: unknown) => log.warn('whose node this is was not noted', { error }))
}

function readOnly(
  { format, path }: { format: number; path: string },
  announcer: Announcer,
  inventory: () => Promise<BackendList>,
): Operations {
  const message = `${path} was written by a newer version of Muster (format ${format}): run that version on this worker again`
  const failure: Failure = { code: 'incompatible', retry: 'backoff', message }
  return {
    submit: async () => ({ accepted: false, failure }),
    status: (op_id) => ({ op_id, state: 'unknown' }),
    cancel: async (op_id) => ({ op_id, state: 'unknown' }),
    active: () => [],
    inventory,
    inventoryChanged: announcer.inventory,
    attach: announcer.attach,
    forget: () => undefined,
    stop: async () => undefined,
  }
}
