// Changes as people and programs follow them: the full current object of whatever changed, to everybody
// who listens.
import type { Log } from '@muster/host'
import type { ChangeStore } from '../store/changes.ts'
import type { ChangeFeed } from './feed.ts'

export interface Event {
  readonly kind: string
  readonly id: string
  /** Names the object among those of all kinds. */
  readonly key: string
  /** Rendered once, however many listen. */
  readonly json: string
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

/** After so many listeners in one go the other work of the process gets its turn. */
const listenersPerTurn = 50

export function createEventHub({ feed, changes: store, readers, log }: EventHubDeps) {
  const listeners = new Set<EventListener>()
  const tell = async (told: Told): Promise<void> => {
    let count = 0
    for (const listener of listeners) {
      listener(told)
      count += 1
      if (count % listenersPerTurn === 0) await new Promise(setImmediate)
    }
  }
  // One batch after the other, so that an older state never overtakes a newer one.
  let queue: Promise<void> = Promise.resolve()
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    if (listeners.size > 0) queue = queue.then(work)
    return queue
  }

  feed.listen(({ changes, cursor }) => {
    void inTurn(async () => {
      try {
        const events = (await readObjects(changes, readers)).map(render)
        await tell({ do: 'send', events, cursor })
      } catch (error) {
        log.warn('events could not be read; listeners begin again', { error })
        await tell({ do: 'cut' })
      }
    })
  })

  return {
    listen(listener: EventListener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    /** Sends these objects as they are now, though nothing about them was stored as a change. Who misses that misses nothing. */
    async tick(kind: string, ids: readonly string[]): Promise<void> {
      if (ids.length === 0) return
      await inTurn(async () => {
        const keys = ids.map((id) => ({ kind, id }))
        const objects = await readObjects(keys, readers).catch(() => [])
        const events = objects.filter(({ data }) => data !== null).map(render)
        if (events.length > 0) await tell({ do: 'send', events, cursor: null })
      })
    },

    /** Everything that changed since; null when that is too long ago to know. In turn too, so that it is not older than what was told before. */
    since(cursor: number): Promise<{ events: Event[]; cursor: number } | null> {
      const answer = queue.then(async () => {
        // Taken before the read: what was settled then is surely in it.
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
  key: `${kind} ${id}`,
  json: JSON.stringify(data ?? { id, deleted: true }),
})

/** `data` is null for what is no longer there. Kinds that a newer version writes are left out. */
async function readObjects(keys: readonly ObjectKey[], readers: EventHubDeps['readers']): Promise<(ObjectKey & { data: object | null })[]> {
  const found: (ObjectKey & { data: object | null })[] = []
  for (const [kind, ofKind] of Map.groupBy(keys, (key) => key.kind)) {
    const objects = (await readers[kind]?.(ofKind.map((key) => key.id))) ?? null
    if (objects !== null) for (const { id } of ofKind) found.push({ kind, id, data: objects.get(id) ?? null })
  }
  return found
}
