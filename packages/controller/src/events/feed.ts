// The change feed: one reader per controller, woken by the database, that notifies listeners and watches. A missed wake
// costs one poll, never a change. The event hub sends the current state of every changed object to all event streams.
import { createLoop, createWakeTimer, type Clock, type Log, type Loop } from '@muster/host'
import type { Change, ChangeStore } from '../store/changes.ts'
import { advance, startAt, type Checkpoints } from './checkpoint.pure.ts'

const pollEveryMs = 1_000
/** After a change there are often more, for which the database does not notify again (record_change). */
const pollSoonMs = 100
const soonForMs = 1_000

export interface ChangeBatch {
  readonly changes: readonly Change[]
  /** A listener that received this batch can read everything after this number. */
  readonly cursor: number
}
export type ChangeListener = (batch: ChangeBatch) => void
export interface ChangeWatch extends Disposable {
  /** True after a change, false after `ms` or when aborted. */
  changed(ms: number, signal: AbortSignal): Promise<boolean>
}
type ObjectKey = Readonly<{ kind: string; id: string }>

const keyOf = (object: ObjectKey): string => `${object.kind} ${object.id}`

export class ChangeFeed {
  readonly #deps: { readonly changes: ChangeStore; readonly clock: Clock; readonly log: Log }
  readonly #listeners = new Set<ChangeListener>()
  readonly #followers = new Set<() => void>()
  /** Watchers by object: each of thousands of workers watches its own node. */
  readonly #watched = new Map<string, Set<() => void>>()
  readonly #loop: Loop
  #checkpoints: Checkpoints | null = null
  #changedAt = -Infinity
  /** Delivered beyond the settled number, so that reading it again delivers nothing twice. */
  #delivered = new Map<string, number>()

  constructor(deps: { readonly changes: ChangeStore; readonly clock: Clock; readonly log: Log }) {
    this.#deps = deps
    this.#loop = createLoop({ what: 'cannot read the change feed; retrying', ...deps, retryMs: pollEveryMs })
  }

  /** Null until the first read. */
  get cursor(): number | null {
    return this.#checkpoints?.settled ?? null
  }

  wake(): void {
    this.#loop.wake()
  }

  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Called when the cursor moves, which is later than the changes that it passes, and when it is first known. */
  onCursorMoved(onMoved: () => void): void {
    this.#followers.add(onMoved)
  }

  /** Watch first and read the objects second, so that no change in between is missed. */
  watch(objects: readonly ObjectKey[]): ChangeWatch {
    const timer = createWakeTimer(this.#deps.clock)
    const notify = (): void => timer.wake()
    for (const key of objects.map(keyOf)) this.#watched.set(key, (this.#watched.get(key) ?? new Set()).add(notify))
    return {
      changed: (ms, signal) => timer.pause(ms, signal).catch(() => false),
      [Symbol.dispose]: () => {
        for (const key of objects.map(keyOf)) {
          this.#watched.get(key)?.delete(notify)
          if (this.#watched.get(key)?.size === 0) this.#watched.delete(key)
        }
      },
    }
  }

  /** Runs until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    await this.#loop.run(async () => {
      await this.#read()
      const isActive = this.#deps.clock.monotonic() - this.#changedAt < soonForMs
      return isActive ? pollSoonMs : pollEveryMs
    }, signal)
  }

  async #read(): Promise<void> {
    const { changes: store, clock } = this.#deps
    const before = this.cursor
    const isFirst = before === null
    // Starts at the oldest readable number and counts everything there as delivered. A number that was drawn earlier and is
    // committed later is then delivered like any other.
    this.#checkpoints ??= startAt(await store.floor())
    const snapshot = await store.readSince(this.#checkpoints.settled)
    const highestSeq = snapshot.changes.at(-1)?.seq ?? this.#checkpoints.settled
    this.#checkpoints = advance(this.#checkpoints, { ...snapshot, highestSeq, at: clock.monotonic() })
    const { settled } = this.#checkpoints
    const fresh = snapshot.changes.filter((change) => (this.#delivered.get(keyOf(change)) ?? 0) < change.seq)
    this.#delivered = new Map(snapshot.changes.filter((change) => change.seq > settled).map((change) => [keyOf(change), change.seq]))
    if (fresh.length > 0) this.#changedAt = clock.monotonic()
    if (fresh.length > 0 && !isFirst) this.#deliver({ changes: fresh, cursor: settled })
    if (settled !== before) for (const onMoved of this.#followers) onMoved()
  }

  #deliver(batch: ChangeBatch): void {
    for (const listener of this.#listeners) listener(batch)
    for (const change of batch.changes) for (const notify of this.#watched.get(keyOf(change)) ?? []) notify()
  }
}

export interface Event {
  readonly kind: string
  readonly id: string
  /** Unique among objects of all kinds. */
  readonly key: string
  /** Rendered once for all listeners. */
  readonly json: string
}
export type HubMessage =
  /** `cursor`: a listener that received these events can resume from it. Null for ticks, which acknowledge nothing. */
  | { readonly do: 'send'; readonly events: readonly Event[]; readonly cursor: number | null }
  /** Objects could not be read: the listener has to resume from its last cursor. */
  | { readonly do: 'cut' }
export type EventListener = (message: HubMessage) => void

/** Reads objects of one kind by id. */
export type ObjectReader = (ids: readonly string[]) => Promise<ReadonlyMap<string, object>>
export type EventHub = ReturnType<typeof createEventHub>

export interface EventHubDeps {
  readonly feed: ChangeFeed
  readonly changes: ChangeStore
  readonly readers: Readonly<Record<string, ObjectReader>>
  readonly log: Log
}

/** After this many listeners the event loop gets a turn. */
const listenersPerTurn = 50

export function createEventHub({ feed, changes: store, readers, log }: EventHubDeps) {
  const listeners = new Set<EventListener>()
  const broadcast = async (message: HubMessage): Promise<void> => {
    let count = 0
    for (const listener of listeners) {
      listener(message)
      count += 1
      if (count % listenersPerTurn === 0) await new Promise(setImmediate)
    }
  }
  // Batches are sent in order, so that an older state never overtakes a newer one.
  let queue: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    if (listeners.size > 0) queue = queue.then(work)
    return queue
  }

  feed.listen(({ changes, cursor }) => {
    void inTurn(async () => {
      try {
        const events = (await readObjects(changes, readers)).map(render)
        await broadcast({ do: 'send', events, cursor })
      } catch (error) {
        log.warn('cannot read changed objects; closing event streams', { error })
        await broadcast({ do: 'cut' })
      }
    })
  })

  return {
    listen(listener: EventListener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    /** Sends the current state of objects without a stored change. A missed tick is harmless. */
    async tick(kind: string, ids: readonly string[]): Promise<void> {
      if (ids.length === 0) return
      await inTurn(async () => {
        const keys = ids.map((id) => ({ kind, id }))
        const objects = await readObjects(keys, readers).catch(() => [])
        const events = objects.filter(({ data }) => data !== null).map(render)
        if (events.length > 0) await broadcast({ do: 'send', events, cursor: null })
      })
    },

    /** All changes after the cursor; null when it is too old. Queued like batches, so that the result is not older than events sent before. */
    since(cursor: number): Promise<{ events: Event[]; cursor: number } | null> {
      const answer = queue.then(async () => {
        // Taken before the read, so that the read includes everything settled.
        const settled = feed.cursor ?? cursor
        const { changes, floor, last } = await store.readSince(cursor)
        if (cursor < floor || cursor > last) return null
        const events = (await readObjects(changes, readers)).map(render)
        return { events, cursor: Math.max(cursor, settled) }
      })
      queue = answer.then(
        () => undefined,
        () => undefined,
      )
      return answer
    },

    cursor: (): number | null => feed.cursor,
    listenerCount: (): number => listeners.size,
  }
}

const render = ({ kind, id, data }: ObjectKey & { data: object | null }): Event => ({
  kind,
  id,
  key: keyOf({ kind, id }),
  json: JSON.stringify(data ?? { id, deleted: true }),
})

/** `data` is null for deleted objects. Unknown kinds, written by a newer version, are skipped. */
async function readObjects(keys: readonly ObjectKey[], readers: EventHubDeps['readers']): Promise<(ObjectKey & { data: object | null })[]> {
  const found: (ObjectKey & { data: object | null })[] = []
  for (const [kind, ofKind] of Map.groupBy(keys, (key) => key.kind)) {
    const objects = (await readers[kind]?.(ofKind.map((key) => key.id))) ?? null
    if (objects !== null) for (const { id } of ofKind) found.push({ kind, id, data: objects.get(id) ?? null })
  }
  return found
}

const tickEveryMs = 5_000
/** In a larger fleet the nodes take turns, so that ticks never cost more than the heartbeats. */
const maxTickedNodes = 256

/** Sends values that change constantly and are not stored as changes (free memory, last heartbeat), every few seconds. */
export function createNodeTicks({ hub, clock }: { hub: EventHub; clock: Clock }) {
  const updated = new Set<string>()
  let lastAt = clock.monotonic()
  return {
    /** New values of these nodes were recorded. */
    add(nodes: readonly string[]): void {
      if (hub.listenerCount() === 0) return updated.clear()
      for (const node of nodes) updated.add(node)
      if (clock.monotonic() - lastAt < tickEveryMs) return
      lastAt = clock.monotonic()
      // A set keeps the order of insertion: nodes that waited longest come first.
      const due = [...updated].slice(0, maxTickedNodes)
      for (const node of due) updated.delete(node)
      void hub.tick('node', due)
    },
  }
}
