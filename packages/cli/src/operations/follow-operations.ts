// Follows operations until all of them are over. Events bring what changes; what counts is read with GET: at first,
// whenever the stream begins anew, and now and then, so that no end is missed whatever happens to the stream or to
// the controller behind it.
import { type Clock, createWakeTimer, type WakeTimer } from '@muster/host'
import { OperationId, operationRoutes, OperationView, type ServerEvent } from '@muster/protocol'
import { CliError } from '../cli-error.ts'
import type { ApiClient } from '../client/api-client.ts'
import { followEvents, isFinal } from '../client/events.ts'
import { parseJson } from '../client/explain-failure.ts'
import type { ProgressView, ReceivedOperation } from './progress-views.ts'

export interface FollowDeps {
  readonly api: Pick<ApiClient, 'call' | 'open'>
  readonly clock: Clock
  /** Ends the following early. */
  readonly signal: AbortSignal
  readonly view: ProgressView
}

const tickMs = 200
/** While events come, reading is only for what they might have missed. */
const pollMs = 15_000
const pollAloneMs = 2_000

/** What was seen last of each; all of them are over unless the signal aborted. Throws when one can't be read any more. */
export async function followOperations(deps: FollowDeps, following: Following): Promise<ReadonlyMap<OperationId, ReceivedOperation>> {
  const tracked = trackOperations(following, deps.view)
  const ended = new AbortController()
  const signal = AbortSignal.any([deps.signal, tracked.over, ended.signal])
  const run: Run = { ...deps, signal, tracked, reading: createWakeTimer(deps.clock), isStreaming: false }
  const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
  if (deps.signal.aborted || following.ids.length === 0) return tracked.latest
  const others = [listen(run), tick(run)]
  try {
    // An answer that hangs must hold up neither Ctrl-C nor an end that an event has told.
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
      // No stream is to be had, for whatever reason: reading goes on without, and tells if that fails too.
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

// What is known of the operations that are followed, out of two sources: events, which come as they please, and
// answers, which may be older than the last event when they arrive.

interface Following {
  readonly ids: readonly OperationId[]
  isOver(operation: OperationView): boolean
}

interface TrackedOperations {
  readonly latest: ReadonlyMap<OperationId, ReceivedOperation>
  /** Aborts once all of them are over. */
  readonly over: AbortSignal
  open(): OperationId[]
  /** True when what came can only be understood by reading. */
  receive(event: ServerEvent): boolean
  /** Called when one is about to be read; takes what was read. */
  beginReading(id: OperationId): (answer: ReceivedOperation) => void
}

function trackOperations({ ids, isOver }: Following, view: Pick<ProgressView, 'put'>): TrackedOperations {
  const latest = new Map<OperationId, ReceivedOperation>()
  const eventCounts = new Map<OperationId, number>()
  const over = new AbortController()
  const isOpen = (id: OperationId): boolean => {
    const last = latest.get(id)
    return last === undefined || !isOver(last.operation)
  }

  function put(one: ReceivedOperation): void {
    // Nothing is added to what the exit code is made from.
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
