// What a worker remembers of the commands it accepted: the journal's entries, put together. Bounded: of
// what is finished, the newest of each backend (its generation must not be forgotten) and the latest results.
import type { BackendName, NodeId, OperationId } from '@muster/protocol'
import type { Entry } from './journal-format.ts'
import { namesIn, type Order } from './order.ts'
import { entriesOf, note, type Work } from './work.ts'

export interface Ledger {
  readonly boot: () => number
  readonly node: () => NodeId | null
  apply(entry: Entry): void
  add(order: Order): Work
  remove(work: Work): void
  get(id: number): Work | null
  byOp(opId: OperationId): Work | null
  /** Of this backend, in the order of acceptance. */
  row(backend: BackendName): readonly Work[]
  /** Concrete names lead to the row of the name that was asked for. Null: there is no such row. */
  rowNameOf(backend: BackendName): BackendName | null
  /** Every name under which work on this backend may meet other work. */
  namesOf(order: Order): readonly BackendName[]
  unfinished(): readonly Work[]
  /** The highest whose work has come to its end, by backend: what is under way may still change what is there. */
  generations(): Record<BackendName, number>
  /** Results of this run and the one before it. */
  recentResults(): readonly Work[]
  prune(): void
  entries(): readonly Entry[]
  size(): number
  forget(): void
}

const keptResults = 64
const keptBackends = 4096
const maxJoinedOps = 64

export function createLedger(entries: readonly Entry[]): Ledger {
  const shelf = createShelf()
  const { all, get, put, attach, remove } = shelf
  let boot = 0
  let node: NodeId | null = null
  let nextId = 0

  const apply = (entry: Entry): void => {
    if (entry.type === 'boot') return void (boot = entry.boot)
    if (entry.type === 'node') return void (node = entry.node)
    const work = get(entry.id)
    if (entry.type === 'order') {
      // A rewritten journal may be followed by lines that were on their way to the old one.
      if (work === null) put(entry.id, entry.order).isStored = true
      nextId = Math.max(nextId, entry.id + 1)
    } else if (work !== null) {
      note(work, entry)
      if (entry.type === 'join') attach(work, entry.op_id)
    }
  }
  for (const entry of entries) apply(entry)

  return {
    boot: () => boot,
    node: () => node,
    apply,
    add: (order) => put(nextId++, order),
    remove,
    get,
    byOp: shelf.byOp,
    row: (backend) => all().filter(({ order }) => order.backend === backend),
    rowNameOf: (backend) => rowNameIn(all(), backend),
    namesOf: (order) => relatedNames(order, all()),
    unfinished: () => all().filter(({ end }) => end === null),
    generations: () => highestEnded(all()),
    recentResults: () =>
      all()
        .filter(({ end }) => end !== null && end.boot >= boot - 1)
        .slice(-keptResults),
    prune: () => disposable(all()).forEach(remove),
    entries: () => [
      ...originOf(boot, node),
      ...all()
        .filter(({ isStored }) => isStored)
        .flatMap(entriesOf),
    ],
    size: () => all().length,
    forget() {
      shelf.clear()
      node = null
    },
  }
}

/** The works themselves, by their number and by the operations they are part of. */
function createShelf() {
  const works = new Map<number, Work>()
  const ops = new Map<OperationId, Work>()
  const attach = (work: Work, opId: OperationId | undefined): void => {
    if (opId === undefined || work.opIds.size >= maxJoinedOps) return
    work.opIds.add(opId)
    ops.set(opId, work)
  }
  return {
    attach,
    all: () => [...works.values()],
    get: (id: number) => works.get(id) ?? null,
    byOp: (opId: OperationId) => ops.get(opId) ?? null,
    put(id: number, order: Order): Work {
      const work: Work = { id, order, opIds: new Set(), epoch: order.epoch ?? null, calledOff: null, end: null, isStored: false }
      works.set(id, work)
      attach(work, order.op_id)
      return work
    },
    remove(work: Work): void {
      works.delete(work.id)
      for (const opId of work.opIds) if (ops.get(opId) === work) ops.delete(opId)
    },
    clear(): void {
      works.clear()
      ops.clear()
    },
  }
}

const originOf = (boot: number, node: NodeId | null): Entry[] => [
  { type: 'boot', boot },
  ...(node === null ? [] : [{ type: 'node' as const, node }]),
]

function highestEnded(works: readonly Work[]): Record<BackendName, number> {
  const highest = new Map<BackendName, number>()
  for (const { order, end } of works) {
    const { backend, generation } = order
    if (end !== null && generation !== undefined) highest.set(backend, Math.max(generation, highest.get(backend) ?? 0))
  }
  return Object.fromEntries(highest)
}

/** Its own, and those of whatever shares one of them, and so on. */
function relatedNames(order: Order, others: readonly Work[]): BackendName[] {
  const names = new Set(namesIn(order))
  for (let before = 0; before !== names.size;) {
    before = names.size
    for (const theirs of others.map((work) => namesIn(work.order)))
      if (theirs.some((name) => names.has(name))) theirs.forEach((name) => names.add(name))
  }
  return [...names]
}

function rowNameIn(works: readonly Work[], backend: BackendName): BackendName | null {
  if (works.some(({ order }) => order.backend === backend)) return backend
  return works.findLast(({ order }) => order.name === backend)?.order.backend ?? null
}

/** Finished, not among the latest, and neither the newest of its backend nor the one with its highest generation. */
function disposable(works: readonly Work[]): Work[] {
  const needed = new Set(works.filter(({ end }) => end !== null).slice(-keptResults))
  const newest = new Map<BackendName, Work>()
  const highest = new Map<BackendName, Work>()
  for (const work of works) {
    const { backend, generation } = work.order
    newest.delete(backend)
    newest.set(backend, work)
    if (generation !== undefined && generation >= (highest.get(backend)?.order.generation ?? 0)) highest.set(backend, work)
  }
  for (const [backend, work] of [...newest].slice(-keptBackends)) {
    needed.add(work)
    const other = highest.get(backend)
    if (other !== undefined) needed.add(other)
  }
  return works.filter((work) => work.end !== null && !needed.has(work))
}
