// An operation in a list: title, state, its nodes on demand, and its progress: a bar, figures, byte rate and time left. Rates come
// from successive events.
import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useSyncExternalStore } from 'react'
import { formatBytes, formatBytesOf, formatDuration, type OperationView } from '@muster/protocol'
import { isOperationQuery } from '../../api/queries.ts'
import { Bar, Pill } from '../../components/state.tsx'
import { useNow, When } from '../../components/time.tsx'
import { plural } from '../../format.ts'
import { Disclosure, NodeProgressList } from './node-progress-list.tsx'
import { OperationActions } from './operation-actions.tsx'
import { addSample, isActive, markOf, msLeft, percentText, rateOf, roundEstimate, type Sample, titleOf } from './operation-words.pure.ts'

export function OperationCard({ operation }: { readonly operation: OperationView }) {
  const title = titleOf(operation)
  const isRunning = isActive(operation)
  return (
    <article aria-label={title} data-row="" className="lazy-row flex flex-col gap-2 rounded-md border bg-raised px-4 py-3">
      <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-1">
        <div className="flex min-w-0 flex-[1_1_16rem] flex-wrap items-baseline gap-x-3">
          <h2 className="min-w-0 font-medium [overflow-wrap:anywhere]">
            <Link to="." search={(before) => ({ ...before, op: operation.id })} className="hover:underline">
              {title}
            </Link>
          </h2>
          <OperationMark operation={operation} />
          <span className="text-[13px] text-soft [overflow-wrap:anywhere]">
            <OperationTimes operation={operation} />
            {operation.requested_by !== '' && `, by ${operation.requested_by}`}
          </span>
        </div>
        <OperationActions operation={operation} />
      </header>
      {isRunning && <OperationProgress operation={operation} />}
      {operation.message !== '' && (
        <p className={`text-[13px] [overflow-wrap:anywhere] ${operation.state === 'failed' ? 'text-bad' : 'text-soft'}`}>
          {operation.message}
        </p>
      )}
      {operation.nodes.length > 0 && (
        <Disclosure label={plural(operation.nodes.length, 'node')} of={title}>
          {() => <NodeProgressList operation={operation} />}
        </Disclosure>
      )}
    </article>
  )
}

export function OperationMark({ operation }: { readonly operation: OperationView }) {
  const { tone, word, sign, hint } = markOf(operation)
  return (
    <Pill tone={tone} sign={sign} hint={hint}>
      {word}
    </Pill>
  )
}

/** When it started; once finished, when and how long it took. */
export function OperationTimes({ operation }: { readonly operation: OperationView }) {
  const { created_at: startedAt, finished_at: finishedAt } = operation
  if (finishedAt === null)
    return (
      <>
        started <When at={startedAt} />
      </>
    )
  return (
    <>
      <When at={finishedAt} />, took {formatDuration(Date.parse(finishedAt) - Date.parse(startedAt))}
    </>
  )
}

export function useTimeLeft(operation: OperationView): { readonly rate: number | null; readonly timeLeft: string } {
  const rate = useRate(operation)
  const ms = msLeft({ current: operation.current_bytes, total: operation.total_bytes }, rate)
  return { rate, timeLeft: ms === null ? '' : `about ${formatDuration(roundEstimate(ms))}` }
}

export function OperationProgress({ operation }: { readonly operation: OperationView }) {
  const { rate, timeLeft } = useTimeLeft(operation)
  const { current_bytes: current, total_bytes: total, progress } = operation
  const isRunning = isActive(operation)
  return (
    <div className="flex flex-col gap-1">
      <Bar percent={progress} label={`${titleOf(operation)}: progress`} tone={markOf(operation).tone} />
      {/* Keeps its height while empty. */}
      <p className="flex min-h-[1.45em] flex-wrap items-baseline gap-x-3 text-[13px] text-soft">
        <span className="w-12 font-medium whitespace-nowrap text-ink">{percentText(progress)}</span>
        {total > 0 && <span title={`${current} of ${total} bytes`}>{formatBytesOf(current, total)}</span>}
        {isRunning && rate !== null && <span>{formatBytes(rate)}/s</span>}
        {isRunning && timeLeft !== '' && <span>{timeLeft}</span>}
      </p>
    </div>
  )
}

/** How long a finished operation stays in the strip. */
const shownMs = 6_000
const noSamples: readonly Sample[] = []

interface EndedOperation {
  readonly operation: OperationView
  readonly at: number
}

/** Records byte samples of running operations and which ones ended recently, from events in the cache. */
class OperationTracker {
  readonly #client: QueryClient
  readonly #listeners = new Set<() => void>()
  readonly #samples = new Map<string, readonly Sample[]>()
  #ended: readonly EndedOperation[] = []
  #stop: (() => void) | null = null

  constructor(client: QueryClient) {
    this.#client = client
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    this.#stop ??= this.#client.getQueryCache().subscribe((event) => {
      // Events update the cache manually; a fetched operation may have ended long ago.
      if (event.type === 'updated' && event.action.type === 'success' && event.action.manual === true) this.#record(event.query)
    })
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      this.#stop?.()
      this.#stop = null
    }
  }
  readonly ended = (): readonly EndedOperation[] => this.#ended
  samplesOf(id: string): readonly Sample[] {
    return this.#samples.get(id) ?? noSamples
  }

  #record(query: Query): void {
    if (!isOperationQuery(query) || query.state.data === undefined) return
    const operation = query.state.data as OperationView
    const at = Date.now()
    const others = this.#ended.filter((each) => each.operation.id !== operation.id && each.at > at - shownMs)
    const recorded = this.#ended.find((each) => each.operation.id === operation.id)
    this.#ended = isActive(operation) ? others : [...others, { operation, at: recorded?.at ?? at }]
    if (isActive(operation))
      this.#samples.set(operation.id, addSample(this.samplesOf(operation.id), { bytes: operation.current_bytes, at }))
    else this.#samples.delete(operation.id)
    for (const listener of this.#listeners) listener()
  }
}

const trackers = new WeakMap<QueryClient, OperationTracker>()
function useTracker(): OperationTracker {
  const client = useQueryClient()
  const tracker = trackers.get(client) ?? new OperationTracker(client)
  trackers.set(client, tracker)
  return tracker
}

/** Bytes per second; null while unknown. */
function useRate({ id }: Pick<OperationView, 'id'>): number | null {
  const tracker = useTracker()
  const now = useNow()
  const samples = useSyncExternalStore(tracker.subscribe, () => tracker.samplesOf(id))
  return rateOf(samples, now)
}

/** The operation that ended last, for a few seconds. */
export function useJustEnded(): OperationView | null {
  const tracker = useTracker()
  const now = useNow()
  return useSyncExternalStore(tracker.subscribe, tracker.ended).findLast(({ at }) => at > now - shownMs)?.operation ?? null
}
