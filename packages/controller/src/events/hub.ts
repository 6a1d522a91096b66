// Changes as people and programs follow them: the full current object of whatever changed, to everybody
// who listens. A listener that reads slowly gets the newest state of each object when it gets round to
// it, never a growing backlog.
import type { Log } from '@muster/host'
import type { ChangeStore } from '../store/changes.ts'
import type { ChangeFeed } from './feed.ts'

export interface Event {
  readonly kind: string
  readonly id: string
  readonly data: object
  /** What to ask for everything since; null for a tick between stored states. */
  readonly cursor: number | null
}
export type EventListener = (events: readonly Event[]) => void

type ObjectKey = Readonly<{ kind: string; id: string }>

/** How the objects of one kind are read, all that are asked for at once. */
export type ObjectReader = (ids: readonly string[]) => Promise<ReadonlyMap<string, object>>
export type EventHub = ReturnType<typeof createEventHub>

export function createEventHub(deps: {
  feed: ChangeFeed
  changes: ChangeStore
  readers: Readonly<Record<string, ObjectReader>>
  log: Log
}) {
  const listeners = new Set<EventListener>()

  async function eventsOf(changes: readonly ObjectKey[], cursor: number | null): Promise<Event[]> {
    const events: Event[] = []
    for (const [kind, ofKind] of Map.groupBy(changes, (change) => change.kind)) {
      const read = deps.readers[kind]
      if (read === undefined) continue // written by a newer version
      const objects = await read(ofKind.map((change) => change.id))
      for (const { id } of ofKind) events.push({ kind, id, data: objects.get(id) ?? { id, deleted: true }, cursor })
    }
    return events
  }

  // One batch after the other, so that an older state never overtakes a newer one.
  let queue: Promise<void> = Promise.resolve()
  function tell(changes: readonly ObjectKey[], cursor: number | null): void {
    if (listeners.size === 0 || changes.length === 0) return
    queue = queue.then(async () => {
      try {
        const events = await eventsOf(changes, cursor)
        for (const listener of listeners) listener(events)
      } catch (error) {
        // The objects could not be read now. Listeners ask again from their cursor: told to, by being cut.
        deps.log.warn('events could not be read', { error })
        for (const listener of listeners) listener([])
      }
    })
  }
  deps.feed.listen(({ changes, cursor }) => tell(changes, cursor))

  return {
    listen(listener: EventListener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    /** Everything that changed since; null when that is too long ago to know. */
    async since(cursor: number): Promise<Event[] | null> {
      const { floor, last } = await deps.changes.bounds()
      if (cursor < floor || cursor > last) return null
      const { changes } = await deps.changes.readSince(cursor)
      return await eventsOf(changes, Math.max(cursor, deps.feed.cursor ?? cursor))
    },

    /** Sends these objects as they are now, though nothing about them was stored as a change. */
    tick(kind: string, ids: readonly string[]): void {
      tell(
        ids.map((id) => ({ kind, id })),
        null,
      )
    },

    cursor: (): number | null => deps.feed.cursor,
    listenerCount: (): number => listeners.size,
  }
}
