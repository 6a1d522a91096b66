// The commands that a worker accepted: the journal's entries, combined. Bounded: of finished work it keeps the newest of each
// backend (its generation must not be forgotten) and the latest results.
import type { BackendName, Failure, NodeId, OperationId, OpStatusReply } from '@muster/protocol'
import type { ProgressState } from '../work/reports.ts'
import type { AcceptedIntent } from './admission.pure.ts'
import { type BackendCommand, type Entry, intentOf, namesIn, type Outcome } from './journal.ts'

export interface Work {
  readonly id: number
  readonly command: BackendCommand
  /** The operations that share its end: the first one, and those that joined. */
  readonly opIds: Set<OperationId>
  epoch: number | null
  cancelFailure: Failure | null
  end: Readonly<{ outcome: Outcome; boot: number }> | null
  /** True once the journal has it. */
  isStored: boolean
}

export interface Ledger {
  readonly boot: () => number
  readonly node: () => NodeId | null
  apply(entry: Entry): void
  add(command: BackendCommand): Work
  remove(work: Work): void
  get(id: number): Work | null
  /** All work on a backend, in the order of acceptance. */
  ofBackend(backend: BackendName): readonly Work[]
  /** The name that commands used for this backend, also given its concrete name. Null: no work on it is known. */
  canonicalName(backend: BackendName): BackendName | null
  /** Every name under which this work may conflict with other work. */
  namesOf(command: BackendCommand): readonly BackendName[]
  unfinished(): readonly Work[]
  /** The highest generation whose work has ended, by backend: open work may still change what is installed. */
  generations(): Record<BackendName, number>
  /** Results of this run of the worker and the one before it. */
  recentResults(): readonly Work[]
  prune(): void
  entries(): readonly Entry[]
  size(): number
  forget(): void
}

/** Learns which work belongs to which operation, so that it can be found by operation ID. */
export type OperationIndex = Readonly<{ add(opId: OperationId, work: Work): void; remove(opId: OperationId, work: Work): void }>

const noIndex: OperationIndex = { add: () => undefined, remove: () => undefined }

const keptResults = 64
const keptBackends = 4096
const maxJoinedOps = 64

export function createLedger(entries: readonly Entry[], operations: OperationIndex = noIndex): Ledger {
  const works = createWorks(operations)
  const { all, get, put, attach, remove } = works
  let boot = 0
  let node: NodeId | null = null
  let nextId = 0

  const apply = (entry: Entry): void => {
    if (entry.type === 'boot') return void (boot = entry.boot)
    if (entry.type === 'node') return void (node = entry.node)
    const work = get(entry.id)
    if (entry.type === 'order') {
      // A rewritten journal may be followed by lines that were meant for the old one.
      if (work === null) put(entry.id, entry.order).isStored = true
      nextId = Math.max(nextId, entry.id + 1)
    } else if (work !== null) {
      update(work, entry)
      if (entry.type === 'join') attach(work, entry.op_id)
    }
  }
  for (const entry of entries) apply(entry)

  return {
    boot: () => boot,
    node: () => node,
    apply,
    add: (command) => put(nextId++, command),
    remove,
    get,
    ofBackend: (backend) => all().filter(({ command }) => command.backend === backend),
    canonicalName: (backend) => canonicalNameIn(all(), backend),
    namesOf: (command) => relatedNames(command, all()),
    unfinished: () => all().filter(({ end }) => end === null),
    generations: () => highestEnded(all()),
    recentResults: () =>
      all()
        .filter(({ end }) => end !== null && end.boot >= boot - 1)
        .slice(-keptResults),
    prune: () => findPrunable(all()).forEach(remove),
    entries: () => [
      ...originOf(boot, node),
      ...all()
        .filter(({ isStored }) => isStored)
        .flatMap(entriesOf),
    ],
    size: () => all().length,
    forget() {
      works.clear()
      node = null
    },
  }
}

function createWorks(operations: OperationIndex) {
  const works = new Map<number, Work>()
  const attach = (work: Work, opId: OperationId | undefined): void => {
    if (opId === undefined || work.opIds.size >= maxJoinedOps) return
    work.opIds.add(opId)
    operations.add(opId, work)
  }
  const remove = (work: Work): void => {
    works.delete(work.id)
    for (const opId of work.opIds) operations.remove(opId, work)
  }
  return {
    attach,
    remove,
    all: () => [...works.values()],
    get: (id: number) => works.get(id) ?? null,
    put(id: number, command: BackendCommand): Work {
      const work: Work = { id, command, opIds: new Set(), epoch: command.epoch ?? null, cancelFailure: null, end: null, isStored: false }
      works.set(id, work)
      attach(work, command.op_id)
      return work
    },
    clear: () => [...works.values()].forEach(remove),
  }
}

const originOf = (boot: number, node: NodeId | null): Entry[] => [
  { type: 'boot', boot },
  ...(node === null ? [] : [{ type: 'node' as const, node }]),
]

function highestEnded(works: readonly Work[]): Record<BackendName, number> {
  const highest = new Map<BackendName, number>()
  for (const { command, end } of works) {
    const { backend, generation } = command
    if (end !== null && generation !== undefined) highest.set(backend, Math.max(generation, highest.get(backend) ?? 0))
  }
  return Object.fromEntries(highest)
}

/** The names of a command, and transitively those of all work that shares one of them. */
function relatedNames(command: BackendCommand, others: readonly Work[]): BackendName[] {
  const names = new Set(namesIn(command))
  for (let before = 0; before !== names.size;) {
    before = names.size
    for (const theirs of others.map((work) => namesIn(work.command)))
      if (theirs.some((name) => names.has(name))) theirs.forEach((name) => names.add(name))
  }
  return [...names]
}

function canonicalNameIn(works: readonly Work[], backend: BackendName): BackendName | null {
  if (works.some(({ command }) => command.backend === backend)) return backend
  return works.findLast(({ command }) => command.name === backend)?.command.backend ?? null
}

/** Finished work that is not among the latest, and neither the newest of its backend nor the one with its highest generation. */
function findPrunable(works: readonly Work[]): Work[] {
  const needed = new Set(works.filter(({ end }) => end !== null).slice(-keptResults))
  const newest = new Map<BackendName, Work>()
  const highest = new Map<BackendName, Work>()
  for (const work of works) {
    const { backend, generation } = work.command
    newest.delete(backend)
    newest.set(backend, work)
    if (generation !== undefined && generation >= (highest.get(backend)?.command.generation ?? 0)) highest.set(backend, work)
  }
  for (const [backend, work] of [...newest].slice(-keptBackends)) {
    needed.add(work)
    const other = highest.get(backend)
    if (other !== undefined) needed.add(other)
  }
  return works.filter((work) => work.end !== null && !needed.has(work))
}

function update(work: Work, entry: Extract<Entry, { type: 'join' | 'cancel' | 'end' }>): void {
  if (entry.type === 'cancel') work.cancelFailure = entry.failure
  else if (entry.type === 'end') work.end = { outcome: entry.outcome, boot: entry.boot }
  else if (entry.epoch !== undefined) work.epoch = Math.max(work.epoch ?? 0, entry.epoch)
}

export function acceptedIntentOf(work: Work): AcceptedIntent {
  return { ...intentOf(work.command), epoch: work.epoch, id: work.id, state: stateOf(work) }
}

function stateOf({ end, cancelFailure }: Work): AcceptedIntent['state'] {
  if (end !== null) return end.outcome.state
  return cancelFailure === null ? 'open' : 'ending'
}

/** The journal entries that recreate the work. */
function entriesOf({ id, command, opIds, epoch, cancelFailure, end }: Work): Entry[] {
  const joined = [...opIds].filter((opId) => opId !== command.op_id)
  return [
    { type: 'order', id, order: command },
    ...joined.map((op_id): Entry => ({ type: 'join', id, op_id })),
    ...(epoch === null || epoch === command.epoch ? [] : [{ type: 'join' as const, id, epoch }]),
    ...(cancelFailure === null ? [] : [{ type: 'cancel' as const, id, failure: cancelFailure }]),
    ...(end === null ? [] : [{ type: 'end' as const, id, boot: end.boot, outcome: end.outcome }]),
  ]
}

/** The reply to `op.status` and the content of `op.result`. Without progress the work has not started. */
export function statusOf(opId: OperationId, work: Work, progress: ProgressState | null = null): OpStatusReply {
  const { generation } = work.command
  const about = { op_id: opId, ...(generation === undefined ? {} : { generation }), ...(work.epoch === null ? {} : { epoch: work.epoch }) }
  if (work.end !== null) return { ...about, ...work.end.outcome }
  if (progress === null) return { ...about, state: 'accepted' }
  const { phase, current, total, seq } = progress
  return { ...about, state: 'running', current, total, progress_seq: seq, ...(phase === null ? {} : { phase }) }
}
