// How far a whole operation is: a bar, and the same in figures.
import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import type { OperationView } from '@muster/protocol'
import { isOperation } from '../../api/queries.ts'
import { Bar } from '../../components/state.tsx'
import { useNow } from '../../components/time.tsx'
import { formatBytes, formatBytesOf, formatDuration } from '../../format.ts'
import { isActive, markOf, percentText, titleOf } from './operation-words.pure.ts'
import { addSample, msLeft, rateOf, roundGuess, type Sample } from './rate.pure.ts'

export function useTimeLeft(operation: OperationView): { readonly rate: number | null; readonly left: string } {
  const rate = useRate(operation)
  const ms = msLeft({ current: operation.current_bytes, total: operation.total_bytes }, rate)
  return { rate, left: ms === null ? '' : `about ${formatDuration(roundGuess(ms))}` }
}

export function OperationProgress({ operation }: { readonly operation: OperationView }) {
  const { rate, left } = useTimeLeft(operation)
  const { current_bytes: current, total_bytes: total, progress } = operation
  const isOpen = isActive(operation)
  return (
    <div className="flex flex-col gap-1">
      <Bar percent={progress} label={`${titleOf(operation)}: progress`} tone={markOf(operation).tone} />
      {/* The line is kept, also while nothing is known. */}
      <p className="flex min-h-[1.45em] flex-wrap items-baseline gap-x-3 text-[13px] text-soft">
        <span className="w-12 font-medium whitespace-nowrap text-ink">{percentText(progress)}</span>
        {total > 0 && <span title={`${current} of ${total} bytes`}>{formatBytesOf(current, total)}</span>}
        {isOpen && rate !== null && <span>{formatBytes(rate)}/s</span>}
        {isOpen && left !== '' && <span>{left}</span>}
      </p>
    </div>
  )
}

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
function useRate({ id }: Pick<OperationView, 'id'>): number | null {
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
