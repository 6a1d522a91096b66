// Follows operations until all of them are over. Events bring changes; the state is also read with GET: at first, whenever
// the stream reconnects, and now and then, so that no end is missed when the stream or the controller fails.
import { type Clock, createWakeTimer, type WakeTimer, parseJson } from '@muster/host'
import { OperationId, operationRoutes, OperationView, type ServerEvent } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { followEvents, isFinal } from '../client/events.ts'
import type { ProgressView, ReceivedOperation } from './progress-views.ts'

export interface FollowDeps {
  readonly api: Pick<ApiClient, 'call' | 'open'>
  readonly clock: Clock
  /** Stops following early. */
  readonly signal: AbortSignal
  readonly view: ProgressView
}

const tickMs = 200
/** While the stream works, reading only covers missed events. */
const pollMs = 15_000
const pollAloneMs = 2_000

/** Returns the latest state of each; all are over unless the signal aborted. Throws when one cannot be read any more. */
export async function followOperations(deps: FollowDeps, target: FollowTarget): Promise<ReadonlyMap<OperationId, ReceivedOperation>> {
  const tracked = trackOperations(target, deps.view)
  const ended = new AbortController()
  const signal = AbortSignal.any([deps.signal, tracked.over, ended.signal])
  const run: Run = { ...deps, signal, tracked, reading: createWakeTimer(deps.clock), isStreaming: false }
  const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  if (deps.signal.aborted || target.ids.length === 0) return tracked.latest
  const others = [listen(run), tick(run)]
  try {
    // A request that hangs must delay neither Ctrl-C nor an end that an event reported.
    await Promise.race([read(run), aborted])
  } finally {
    ended.abort()
    await Promise.all(others)
    deps.view.end()
  }
  return tracked.latest
}

interface Run extends FollowDeps {
  readonly tracked: TrackedOperations
  readonly reading: WakeTimer
  isStreaming: boolean
}

async function listen(run: Run): Promise<void> {
  const { api, clock, signal, tracked, reading, view } = run
  while (!signal.aborted) {
    try {
      for await (const item of followEvents({ api, clock, signal })) {
        run.isStreaming = item.kind !== 'lost'
        if (item.kind === 'lost') view.connectionLost(item.reason)
        if (item.kind !== 'event' || tracked.receive(item.event)) reading.wake()
      }
    } catch {
      // Without a stream, reading continues, and reports its own failures.
      run.isStreaming = false
    }
    await clock.sleep(pollAloneMs, signal).catch(() => undefined)
  }
}

async function read(run: Run): Promise<void> {
  const { api, signal, tracked, reading, view } = run
  while (!signal.aborted) {
    try {
      for (const id of tracked.open()) {
        const take = tracked.beginReading(id)
        const { body, raw } = await api.call(operationRoutes.get, { params: { id } })
        take({ operation: body, raw })
      }
      view.connectionRestored()
    } catch (error) {
      if (isFinal(error) || !(error instanceof CliError)) throw error
      view.connectionLost(error.message)
      run.isStreaming = false
    }
    await reading.pause(run.isStreaming ? pollMs : pollAloneMs, signal).catch(() => undefined)
  }
}

async function tick({ clock, signal, view }: Run): Promise<void> {
  for (; !signal.aborted; view.tick()) await clock.sleep(tickMs, signal).catch(() => undefined)
}

// The state of the followed operations from two sources: events, and answers, which may be older than the last event.

interface FollowTarget {
  readonly ids: readonly OperationId[]
  isOver(operation: OperationView): boolean
}

interface TrackedOperations {
  readonly latest: ReadonlyMap<OperationId, ReceivedOperation>
  /** Aborts once all of them are over. */
  readonly over: AbortSignal
  open(): OperationId[]
  /** True when the operation has to be read: the event does not hold it. */
  receive(event: ServerEvent): boolean
  /** Called before a request; the returned function takes its answer. */
  beginReading(id: OperationId): (answer: ReceivedOperation) => void
}

function trackOperations({ ids, isOver }: FollowTarget, view: Pick<ProgressView, 'put'>): TrackedOperations {
  const latest = new Map<OperationId, ReceivedOperation>()
  const eventCounts = new Map<OperationId, number>()
  const over = new AbortController()
  const isOpen = (id: OperationId): boolean => {
    const last = latest.get(id)
    return last === undefined || !isOver(last.operation)
  }

  function put(one: ReceivedOperation): void {
    // The exit code is made from the state at the end; later events do not count.
    if (over.signal.aborted) return
    latest.set(one.operation.id, one)
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
      // The operation is deleted, or of a newer version: the next read finds out.
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
