// What changed, as it changes: one reader per controller, woken by the database, that tells everybody
// who listens. A missed wake costs one poll, never a change.
import type { Clock, Log } from '@muster/host'
import type { Change, ChangeStore } from '../store/changes.ts'
import { advance, startAt, type Checkpoints } from './checkpoint.ts'

const pollEveryMs = 1_000

export interface ChangeBatch {
  readonly changes: readonly Change[]
  /** What a listener that saw this batch may ask for everything since. */
  readonly cursor: number
}
export interface ChangeWatch extends Disposable {
  /** True when it changed, false after `ms` or when aborted. */
  changed(ms: number, signal: AbortSignal): Promise<boolean>
}
export type ChangeListener = (batch: ChangeBatch) => void
export type ChangeFeed = ReturnType<typeof createChangeFeed>

const keyOf = (object: { kind: string; id: string }): string => `${object.kind} ${object.id}`

export function createChangeFeed(deps: { changes: ChangeStore; clock: Clock; log: Log }) {
  const { changes: store, clock, log } = deps
  const listeners = new Set<ChangeListener>()
  /** Watchers by object: thousands of workers wait for news of themselves alone. */
  const watched = new Map<string, Set<() => void>>()
  let checkpoints: Checkpoints | null = null
  /** What was told beyond the settled number, so that reading it again tells nothing twice. */
  let told = new Map<string, number>()
  let wakeUp: (() => void) | null = null
  let isWoken = false

  function wake(): void {
    isWoken = true
    wakeUp?.()
  }

  async function read(): Promise<void> {
    checkpoints ??= startAt((await store.bounds()).last)
    const snapshot = await store.readSince(checkpoints.settled)
    const highestSeq = snapshot.changes.at(-1)?.seq ?? checkpoints.settled
    checkpoints = advance(checkpoints, { ...snapshot, highestSeq, at: clock.monotonic() })
    const isNews = (change: Change): boolean => (told.get(keyOf(change)) ?? 0) < change.seq
    const news = snapshot.changes.filter(isNews)
    const { settled } = checkpoints
    told = new Map(snapshot.changes.filter((c) => c.seq > settled).map((c) => [keyOf(c), c.seq]))
    if (news.length === 0) return
    for (const listener of listeners) listener({ changes: news, cursor: settled })
    for (const change of news) for (const tell of watched.get(keyOf(change)) ?? []) tell()
  }

  async function pause(signal: AbortSignal): Promise<void> {
    if (isWoken) return
    const woken = new AbortController()
    wakeUp = () => woken.abort()
    await clock.sleep(pollEveryMs, AbortSignal.any([signal, woken.signal])).catch(() => undefined)
    wakeUp = null
  }

  return {
    wake,
    /** Null until the first read: nobody knows yet what there is to be missed. */
    cursor: (): number | null => checkpoints?.settled ?? null,

    listen(listener: ChangeListener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    /**
     * Watches one object from now on. Take the watch first and read the object second: a change in
     * between is then not missed.
     */
    watch(object: { kind: string; id: string }): ChangeWatch {
      const key = keyOf(object)
      const changed = new AbortController()
      const told = () => changed.abort()
      const watchers = watched.get(key) ?? new Set()
      watched.set(key, watchers.add(told))
      return {
        async changed(ms, signal) {
          if (!changed.signal.aborted) await clock.sleep(ms, AbortSignal.any([signal, changed.signal])).catch(() => undefined)
          return changed.signal.aborted
        },
        [Symbol.dispose]() {
          watchers.delete(told)
          if (watchers.size === 0) watched.delete(key)
        },
      }
    },

    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        isWoken = false
        await read().catch((error: unknown) => log.warn('changes could not be read', { error }))
        await pause(signal)
      }
    },
  }
}
