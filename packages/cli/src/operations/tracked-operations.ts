// What is known of the operations that are followed, out of two sources: events, which come as they please, and
// answers, which may be older than the last event when they arrive.
import { OperationId, OperationView, type ServerEvent } from '@muster/protocol'
import { parseJson } from '../client/explain-failure.ts'
import type { ProgressView, ReceivedOperation } from './progress-view.ts'

export interface Following {
  readonly ids: readonly OperationId[]
  isOver(operation: OperationView): boolean
}

export interface TrackedOperations {
  readonly latest: ReadonlyMap<OperationId, ReceivedOperation>
  /** Aborts once all of them are over. */
  readonly over: AbortSignal
  open(): OperationId[]
  /** True when what came can only be understood by reading. */
  receive(event: ServerEvent): boolean
  /** Called when one is about to be read; takes what was read. */
  beginReading(id: OperationId): (answer: ReceivedOperation) => void
}

export function trackOperations({ ids, isOver }: Following, view: Pick<ProgressView, 'put'>): TrackedOperations {
  const seen = new Map<OperationId, ReceivedOperation>()
  const eventCounts = new Map<OperationId, number>()
  const over = new AbortController()
  const isOpen = (id: OperationId): boolean => {
    const last = seen.get(id)
    return last === undefined || !isOver(last.operation)
  }

  function put(one: ReceivedOperation): void {
    // Nothing is added to what the exit code is made from.
    if (over.signal.aborted) return
    seen.set(one.operation.id, one)
    view.put(one)
    if (!ids.some(isOpen)) over.abort()
  }

  return {
    latest,
    over: over.signal,
    open: () => ids.filter(isOpen),
    receive: (event) => {
      if (event.type !== 'operation') return event.type === 'reset'
      const raw = parseJson(event.data)
      const id = OperationId.safeParse(idOf(raw)).data
      if (id === undefined || !ids.includes(id)) return false
      const parsed = OperationView.safeParse(raw)
      // Gone, or not what this version knows: reading says which.
      if (!parsed.success) return true
      eventCounts.set(id, (eventCounts.get(id) ?? 0) + 1)
      put({ operation: parsed.data, raw })
      return false
    },
    beginReading: (id) => {
      const before = eventCounts.get(id)
      return (answer) => {
        if (eventCounts.get(id) === before || isOver(answer.operation)) put(answer)
      }
    },
  }
}

const idOf = (raw: unknown): unknown => (typeof raw === 'object' && raw !== null && 'id' in raw ? raw.id : undefined)
