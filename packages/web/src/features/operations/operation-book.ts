// What events told of operations beyond how they are now: how fast their bytes come, and which have just ended. It reads
// along with the cache; nothing is asked of anybody.
import type { OperationView } from '@muster/protocol'
import { useQueryClient, type Query, type QueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { isOperation } from '../../api/keys.ts'
import { useNow } from '../../components/time.tsx'
import { isActive } from './operation-words.ts'
import { addSample, rateOf, type Sample } from './rate.ts'

/** So long the eye may look elsewhere. */
const shownMs = 6_000
const nothing: readonly Sample[] = []

interface Ended {
  readonly operation: OperationView
  readonly at: number
}

class OperationBook {
  readonly #client: QueryClient
  readonly #listeners = new Set<() => void>()
  readonly #samples = new Map<string, readonly Sample[]>()
  #ended: readonly Ended[] = []
  #stop: (() => void) | null = null

  constructor(client: QueryClient) {
    this.#client = client
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    this.#stop ??= this.#client.getQueryCache().subscribe((event) => {
      // Events are put into the cache by hand; what was fetched may be long over.
      if (event.type === 'updated' && event.action.type === 'success' && event.action.manual === true) this.#note(event.query)
    })
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      this.#stop?.()
      this.#stop = null
    }
  }
  readonly ended = (): readonly Ended[] => this.#ended
  samplesOf(id: string): readonly Sample[] {
    return this.#samples.get(id) ?? nothing
  }

  #note(query: Query): void {
    if (!isOperation(query) || query.state.data === undefined) return
    const operation = query.state.data as OperationView
    const at = Date.now()
    const others = this.#ended.filter((each) => each.operation.id !== operation.id && each.at > at - shownMs)
    const known = this.#ended.find((each) => each.operation.id === operation.id)
    this.#ended = isActive(operation) ? others : [...others, { operation, at: known?.at ?? at }]
    if (isActive(operation))
      this.#samples.set(operation.id, addSample(this.samplesOf(operation.id), { bytes: operation.current_bytes, at }))
    else this.#samples.delete(operation.id)
    for (const listener of this.#listeners) listener()
  }
}

const books = new WeakMap<QueryClient, OperationBook>()
function useBook(): OperationBook {
  const client = useQueryClient()
  const book = books.get(client) ?? new OperationBook(client)
  books.set(client, book)
  return book
}

/** Bytes per second; null when nobody can know. */
export function useRate({ id }: Pick<OperationView, 'id'>): number | null {
  const book = useBook()
  const now = useNow()
  const samples = useSyncExternalStore(book.subscribe, () => book.samplesOf(id))
  return rateOf(samples, now)
}

/** The one that ended last, for as long as it is news. */
export function useJustEnded(): OperationView | null {
  const book = useBook()
  const now = useNow()
  return useSyncExternalStore(book.subscribe, book.ended).findLast(({ at }) => at > now - shownMs)?.operation ?? null
}
