// What changed, as it changes: one reader per controller, woken by the database, that tells everybody
// who listens. A missed wake costs one poll, never a change.
import { createFailureStreak, createWakeTimer, type Clock, type Log, type FailureStreak } from '@muster/host'
import type { Change, ChangeStore } from '../store/changes.ts'
import { advance, startAt, type Checkpoints } from './checkpoint.ts'

const pollEveryMs = 1_000
/** After news there is often more, for which nobody rings again (record_change). */
const pollSoonMs = 100
const soonForMs = 1_000

export interface ChangeBatch {
  readonly changes: readonly Change[]
  /** What a listener that saw this batch may ask for everything since. */
  readonly cursor: number
}
export type ChangeListener = (batch: ChangeBatch) => void
export interface ChangeWatch extends Disposable {
  /** True when it changed, false after `ms` or when aborted. */
  changed(ms: number, signal: AbortSignal): Promise<boolean>
}
type ObjectKey = Readonly<{ kind: string; id: string }>

const keyOf = (object: ObjectKey): string => `${object.kind} ${object.id}`

export class ChangeFeed {
  readonly #deps: { readonly changes: ChangeStore; readonly clock: Clock; readonly log: Log }
  readonly #listeners = new Set<ChangeListener>()
  readonly #followers = new Set<() => void>()
  /** Watchers by object: each of thousands of workers waits for news of itself. */
  readonly #watched = new Map<string, Set<() => void>>()
  readonly #wakeable: ReturnType<typeof createWakeTimer>
  readonly #trouble: FailureStreak
  #checkpoints: Checkpoints | null = null
  #newsAt = -Infinity
  /** What was told beyond the settled number, so that reading it again tells nothing twice. */
  #told = new Map<string, number>()

  constructor(deps: { readonly changes: ChangeStore; readonly clock: Clock; readonly log: Log }) {
    this.#deps = deps
    this.#wakeable = createWakeTimer(deps.clock)
    this.#trouble = createFailureStreak({ what: 'changes can not be read', ...deps })
  }

  /** Null until the first read: nobody knows yet what there is to be missed. */
  get cursor(): number | null {
    return this.#checkpoints?.settled ?? null
  }

  wake(): void {
    this.#wakeable.wake()
  }

  listen(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Told when the cursor moved, which is later than the news it moves over; and when it is known for the first time. */
  follow(onMoved: () => void): void {
    this.#followers.add(onMoved)
  }

  /**
   * Watches these objects from now on. Take the watch first and read the objects second: a change in
   * between is then not missed.
   */
  watch(objects: readonly ObjectKey[]): ChangeWatch {
    const wakeable = createWakeTimer(this.#deps.clock)
    const tell = (): void => wakeable.wake()
    for (const key of objects.map(keyOf)) this.#watched.set(key, (this.#watched.get(key) ?? new Set()).add(tell))
    return {
      changed: (ms, signal) => wakeable.pause(ms, signal).catch(() => false),
      [Symbol.dispose]: () => {
        for (const key of objects.map(keyOf)) {
          this.#watched.get(key)?.delete(tell)
          if (this.#watched.get(key)?.size === 0) this.#watched.delete(key)
        }
      },
    }
  }

  /** Until aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#read().then(
        () => this.#trouble.recovered(),
        (error: unknown) => this.#trouble.failed({ error }),
      )
      const isLively = this.#deps.clock.monotonic() - this.#newsAt < soonForMs
      await this.#wakeable.pause(isLively ? pollSoonMs : pollEveryMs, signal).catch(() => false)
    }
  }

  async #read(): Promise<void> {
    const { changes: store, clock } = this.#deps
    const before = this.cursor
    const isFirst = before === null
    // It begins with the oldest number that can be asked for, and counts all that is there as told: nobody listened
    // before. What was drawn earlier and is committed later is then news like any other.
    this.#checkpoints ??= startAt(await store.floor())
    const snapshot = await store.readSince(this.#checkpoints.settled)
    const highestSeq = snapshot.changes.at(-1)?.seq ?? this.#checkpoints.settled
    this.#checkpoints = advance(this.#checkpoints, { ...snapshot, highestSeq, at: clock.monotonic() })
    const { settled } = this.#checkpoints
    const news = snapshot.changes.filter((change) => (this.#told.get(keyOf(change)) ?? 0) < change.seq)
    this.#told = new Map(snapshot.changes.filter((change) => change.seq > settled).map((change) => [keyOf(change), change.seq]))
    if (news.length > 0) this.#newsAt = clock.monotonic()
    if (news.length > 0 && !isFirst) this.#tell({ changes: news, cursor: settled })
    if (settled !== before) for (const onMoved of this.#followers) onMoved()
  }

  #tell(batch: ChangeBatch): void {
    for (const listener of this.#listeners) listener(batch)
    for (const change of batch.changes) for (const tell of this.#watched.get(keyOf(change)) ?? []) tell()
  }
}
