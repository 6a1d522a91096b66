// The progress of an operation: its card in a list, its state and times, a bar with figures, byte rate and time left, and its nodes,
// one row each in a stable order. Rates come from successive events.
import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useId, useState, useSyncExternalStore } from 'react'
import { formatBytes, formatBytesOf, formatDuration, type OperationNode, type OperationView } from '@muster/protocol'
import { isOperationQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { Bar, Pill } from '../../components/state.tsx'
import { useNow, When } from '../../components/time.tsx'
import { plural } from '../../format.ts'
import { OperationActions, useRetry } from './operation-actions.tsx'
import {
  addSample,
  canRetry,
  canTryNow,
  isActive,
  markOf,
  msLeft,
  nodeMarkOf,
  noteOf,
  percentText,
  phaseText,
  rateOf,
  ringsOf,
  roundEstimate,
  type Sample,
  titleOf,
} from './operation-words.pure.ts'

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
      {operation.note !== undefined && <p className="text-[13px] text-soft [overflow-wrap:anywhere]">{operation.note}</p>}
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

export function NodeProgressList({ operation }: { readonly operation: OperationView }) {
  return (
    <div className="flex flex-col gap-3">
      {ringsOf(operation.nodes).map(({ title, progress, nodes }) => (
        <section key={title} aria-label={title === '' ? 'Nodes' : title}>
          {title !== '' && (
            <h3 className="mb-1 flex gap-2 text-[13px] font-medium">
              {title} <span className="font-normal text-soft">{progress}</span>
            </h3>
          )}
          <ul className="divide-y rounded-md border bg-raised">
            {nodes.map((node) => (
              <NodeRow key={node.node_id} node={node} operation={operation} />
            ))}
          </ul>
        </section>
      ))}
    </div>
  )
}

function NodeRow({ node, operation }: { readonly node: OperationNode; readonly operation: OperationView }) {
  const { node_name: name, node_id: id, percentage, status } = node
  const mark = nodeMarkOf(node, operation.kind)
  const hasProgress = status !== 'skipped' && !(status === 'cancelled' && percentage === 0)
  return (
    <li aria-label={name} data-status={status} className="lazy-row flex flex-col gap-1 px-3 py-2 text-[13px]">
      <div className="flex flex-wrap items-baseline gap-x-3">
        <Link to="/nodes/$id" params={{ id }} className="min-w-24 flex-[1_1_6rem] truncate font-medium hover:underline" title={name}>
          {name}
        </Link>
        <span className="w-28 shrink-0">
          <Pill tone={mark.tone} sign={mark.sign} hint={mark.hint}>
            {mark.word}
          </Pill>
        </span>
        <span className="w-40 shrink-0 text-soft max-sm:order-1">{phaseText(node)}</span>
        <span className="flex-[1_0_7rem] text-right whitespace-nowrap text-soft max-sm:order-1" title={exactBytes(node)}>
          {bytesText(node)}
        </span>
        <span className="w-12 shrink-0 text-right whitespace-nowrap">{hasProgress ? percentText(percentage) : ''}</span>
      </div>
      <Bar percent={hasProgress ? percentage : 0} label={`${name}: progress`} tone={mark.tone} />
      <NodeNote node={node} operation={operation} />
    </li>
  )
}

/** Keeps its height while empty, so that rows do not move. */
function NodeNote({ node, operation }: { readonly node: OperationNode; readonly operation: OperationView }) {
  const note = noteOf(node, useNow())
  const tone = node.status === 'error' ? 'text-bad' : node.status === 'running_on_worker' ? 'text-wait' : 'text-soft'
  return (
    <div className="flex min-h-[1.45em] items-start justify-between gap-3">
      <p className="min-w-0 text-soft [overflow-wrap:anywhere]">
        {/* Screen readers already got this from the pill's hint. */}
        {note !== '' && (
          <span aria-hidden={node.status === 'running_on_worker'} className={tone}>
            {note}
          </span>
        )}
        {note !== '' && node.file_name !== '' && ' · '}
        <span className="font-mono text-[12px]">{node.file_name}</span>
      </p>
      {canRetry(node) && <RetryNode node={node} operation={operation} text="Retry" />}
      {canTryNow(node) && <RetryNode node={node} operation={operation} text="Try now" />}
    </div>
  )
}

interface RetryNodeProps {
  readonly node: OperationNode
  readonly operation: OperationView
  readonly text: 'Retry' | 'Try now'
}

function RetryNode({ node, operation, text }: RetryNodeProps) {
  const retry = useRetry(operation)
  return (
    <Button isBusy={retry.isPending} aria-label={`${text} on ${node.node_name}`} onClick={() => retry.mutate(node)}>
      {text}
    </Button>
  )
}

function bytesText({ current, total }: OperationNode): string {
  if (total > 0) return formatBytesOf(current, total)
  return current > 0 ? formatBytes(current) : ''
}
const exactBytes = ({ current, total }: OperationNode): string | undefined => (total > 0 ? `${current} of ${total} bytes` : undefined)

interface DisclosureProps {
  readonly label: string
  /** The operation, for screen readers. */
  readonly of: string
  readonly isInitiallyOpen?: boolean
  readonly children: () => ReactNode
}

/** Expands on demand. The state is not in the address. */
export function Disclosure({ label, of, isInitiallyOpen = false, children }: DisclosureProps) {
  const [isOpen, setOpen] = useState(isInitiallyOpen)
  const id = useId()
  return (
    <div className="flex flex-col gap-2">
      <DisclosureButton label={label} of={of} isOpen={isOpen} controls={id} onToggle={() => setOpen(!isOpen)} />
      <div id={id} hidden={!isOpen}>
        {isOpen && children()}
      </div>
    </div>
  )
}

interface DisclosureButtonProps {
  readonly label: string
  readonly of: string
  readonly isOpen: boolean
  readonly controls: string
  readonly onToggle: () => void
}

export function DisclosureButton({ label, of, isOpen, controls, onToggle }: DisclosureButtonProps) {
  return (
    <button
      type="button"
      aria-expanded={isOpen}
      aria-controls={controls}
      onClick={onToggle}
      className="self-start rounded-md px-1 whitespace-nowrap text-soft hover:text-ink"
    >
      <span aria-hidden className="inline-block w-4">
        {isOpen ? '▾' : '▸'}
      </span>
      {label}
      <span className="sr-only"> of {of}</span>
    </button>
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
