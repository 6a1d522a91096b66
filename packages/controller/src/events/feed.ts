// The change feed: one reader per controller, woken by the database, that notifies listeners and watches. A missed wake
// costs one poll, never a change.
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
