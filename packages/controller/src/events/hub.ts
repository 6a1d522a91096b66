// Changes as people and programs follow them: the full current object of whatever changed, to everybody
// who listens.
import type { Log } from '@muster/host'
import type { ChangeStore } from '../store/changes.ts'
import type { ChangeFeed } from './feed.ts'

export interface Event {
  readonly kind: string
  readonly id: string
  readonly data: object
}
export type Told =
  /** `cursor`: who has got all of these may ask for everything since. Null for ticks, which acknowledge nothing. */
  | { readonly do: 'send'; readonly events: readonly Event[]; readonly cursor: number | null }
  /** Something could not be read: ask again, from the last cursor. */
  | { readonly do: 'cut' }
export type EventListener = (told: Told) => void

/** How the objects of one kind are read, all that are asked for at once. */
export type ObjectReader = (ids: readonly string[]) => Promise<ReadonlyMap<string, object>>
type ObjectKey = Readonly<{ kind: string; id: string }>
export type EventHub = ReturnType<typeof createEventHub>

export interface EventHubDeps {
  readonly feed: ChangeFeed
  readonly changes: ChangeStore
  readonly readers: Readonly<Record<string, ObjectReader>>
  readonly log: Log
}

export function createEventHub({ feed, changes: store, readers, log }: EventHubDeps) {
  const listeners = new Set<EventListener>()
  const tell = (told: Told): void => {
    for (const listener of listeners) listener(told)
  }
  // One batch after the other, so that an older state never overtakes a newer one.
  let queue: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): void => {
    if (listeners.size > 0) queue = queue.then(work)
  }

  feed.listen(({ changes, cursor }) =>
    inTurn(async () => {
      try {
        const events = (await readObjects(changes, readers)).map(({ data, ...key }) => ({
          ...key,
          data: data ?? { id: key.id, deleted: true },
        }))
        tell({ do: 'send', events, cursor })
      } catch (error) {
        log.warn('events could not be read; listeners begin again', { error })
        tell({ do: 'cut' })
      }
    }),
  )

  return {
    listen(listener: EventListener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    /** Sends these objects as they are now, though nothing about them was stored as a change. Who misses that misses nothing. */
    tick(kind: string, ids: readonly string[]): void {
      inTurn(async () => {
        const keys = ids.map((id) => ({ kind, id }))
        const objects = await readObjects(keys, readers).catch(() => [])
        const events = objects.flatMap(({ data, ...key }) => (data === null ? [] : [{ ...key, data }]))
        if (events.length > 0) tell({ do: 'send', events, cursor: null })
      })
    },

    /** Everything that changed since; null when that is too long ago to know. In turn too, so that it is not older than what was told before. */
    since(cursor: number): Promise<{ events: Event[]; cursor: number } | null> {
      const answer = queue.then(async () => {
        // Taken before the read: what was settled then is surely in it.
        const settled = feed.cursor ?? cursor
        const { changes, floor, last } = await store.readSince(cursor)
        if (cursor < floor || cursor > last) return null
        const objects = await readObjects(changes, readers)
        const events = objects.map(({ data, ...key }) => ({ ...key, data: data ?? { id: key.id, deleted: true } }))
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

/** `data` is null for what is no longer there. Kinds that a newer version writes are left out. */
async function readObjects(keys: readonly ObjectKey[], readers: EventHubDeps['readers']): Promise<(ObjectKey & { data: object | null })[]> {
  const found: (ObjectKey & { data: object | null })[] = []
  for (const [kind, ofKind] of Map.groupBy(keys, (key) => key.kind)) {
    const objects = (await readers[kind]?.(ofKind.map((key) => key.id))) ?? null
    if (objects !== null) for (const { id } of ofKind) found.push({ kind, id, data: objects.get(id) ?? null })
  }
  return found
}
