// Reports of a node to the controllers: events (results of operations, changes of replicas, the inventory) and progress.
// Events are not acknowledged, so each time the bus connects the latest are published again: at once, and once more for
// listeners that reconnect later.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import {
  type BackendList,
  type BackendName,
  type Incarnation,
  type NodeEvent,
  nodeEvents,
  type NodeId,
  type OperationId,
  type OpStatusReply,
  type Phase,
  progress,
} from '@muster/protocol'

/** The bus, and the node that publishes on it. */
export type NodeBus = Readonly<{ bus: Bus; nodeId: NodeId; incarnation: Incarnation; nextSeq: () => number }>

export type OutgoingEvent = NodeEvent extends infer E ? (E extends NodeEvent ? Omit<E, 'incarnation' | 'seq'> : never) : never

export interface EventPublisher {
  /** Returns how to detach. */
  attach(nodeBus: NodeBus): () => void
  nodeBus(): NodeBus | null
  publish(event: OutgoingEvent): void
  publishResult(status: OpStatusReply): void
  publishInventory(): void
}

export type EventPublisherDeps = Readonly<{
  /** Published on every connection. */
  recent: () => readonly OutgoingEvent[]
  /** Absent: there is no inventory to publish. */
  inventory?: () => Promise<BackendList>
  clock: Clock
  log: Log
}>

/** Longer than a bus client waits between two attempts to connect. */
const repeatMs = 5_000

export function createEventPublisher({ recent, inventory, clock, log }: EventPublisherDeps): EventPublisher {
  let current: NodeBus | null = null
  let isReading = false
  let isStale = false

  const publish = (event: OutgoingEvent): void => {
    if (current === null || !current.bus.isConnected()) return
    try {
      const { bus, nodeId, incarnation, nextSeq } = current
      bus.publish(nodeEvents, { node: nodeId }, { ...event, incarnation, seq: nextSeq() })
    } catch (error) {
      log.error('cannot publish an event', { type: event.type, error })
    }
  }
  const readAndPublish = async (read: () => Promise<BackendList>): Promise<void> => {
    // One reading at a time, so that an older inventory never follows a newer one.
    isReading = true
    while (isStale) {
      isStale = false
      publish({ type: 'inventory', ...(await read()) })
    }
    isReading = false
  }
  const publisher: EventPublisher = {
    nodeBus: () => current,
    publish,
    publishResult: (status) => publish({ type: 'op.result', ...status }),
    publishInventory() {
      isStale = true
      if (!isReading && inventory !== undefined) void readAndPublish(inventory)
    },
    attach(nodeBus) {
      current = nodeBus
      let repeat = new AbortController()
      const publishRecent = (): void => {
        for (const event of recent()) publish(event)
        publisher.publishInventory()
      }
      const publishTwice = (): void => {
        publishRecent()
        repeat.abort()
        repeat = new AbortController()
        clock.sleep(repeatMs, repeat.signal).then(publishRecent, () => undefined)
      }
      const unlisten = nodeBus.bus.onConnection((isConnected) => isConnected && publishTwice())
      if (nodeBus.bus.isConnected()) publishTwice()
      return () => {
        unlisten()
        repeat.abort()
        if (current === nodeBus) current = null
      }
    },
  }
  return publisher
}

/** Bytes over everything there is to fetch; 0 while unknown. */
export type WorkProgress = Readonly<{ phase: Phase | null; fileName?: string; current?: number; total?: number }>

/** `seq` grows whenever something moved or showed a sign of life. */
export type ProgressState = Readonly<{
  phase: Phase | null
  fileName: string
  current: number
  total: number
  percentage: number
  seq: number
}>

export interface ProgressReporter {
  report(progress: WorkProgress): void
  /** The work continues, and no figure changed. */
  sign(): void
  now(): ProgressState
  /** Publishes the last state; nothing when the work is left to the next start. */
  end(how: 'succeeded' | 'failed' | 'cancelled' | 'left'): void
}

const intervalMs = 250

interface ReporterDeps {
  readonly publish: (state: ProgressState) => void
  /** Grows with each call, over restarts too: receivers drop a lower number. */
  readonly nextSeq: () => number
  readonly clock: Clock
}

/**
 * The progress of one piece of work, published at a bounded rate: the first state at once, then at most one per interval, and
 * always the last. The caller only stores the state here; publishing happens outside of its call.
 */
export function createProgressReporter({ publish, nextSeq, clock }: ReporterDeps): ProgressReporter {
  const ended = new AbortController()
  let state: ProgressState = { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: nextSeq() }
  let hasReported = false
  let isChanged = false
  let isPublishing = false

  const publishChanges = async (): Promise<void> => {
    // Not within the caller's own turn.
    await Promise.resolve()
    while (isChanged && !ended.signal.aborted) {
      isChanged = false
      publish(state)
      await clock.sleep(intervalMs, ended.signal).catch(() => undefined)
    }
    isPublishing = false
  }
  const moveTo = (moved: ProgressState): void => {
    if (ended.signal.aborted) return
    state = { ...moved, seq: nextSeq() }
    isChanged = true
    if (isPublishing) return
    isPublishing = true
    void publishChanges()
  }
  return {
    now: () => state,
    report(reported) {
      const moved = next(state, reported)
      // The same figures again (a download that restarts and receives no byte) are no movement.
      if (hasReported && isSame(moved, state)) return
      hasReported = true
      moveTo(moved)
    },
    sign: () => moveTo(state),
    end(how) {
      if (ended.signal.aborted) return
      ended.abort()
      if (how === 'left') return
      if (how === 'succeeded') state = { ...state, current: Math.max(state.current, state.total), percentage: 100 }
      publish({ ...state, seq: nextSeq() })
    },
  }
}

const isSame = (a: ProgressState, b: ProgressState): boolean =>
  a.phase === b.phase && a.fileName === b.fileName && a.current === b.current && a.total === b.total

/** Byte counts may shrink when content is fetched again; the percentage never does. */
function next(before: ProgressState, { phase, fileName = '', current, total }: WorkProgress): ProgressState {
  const [done, all] = [wholeBytes(current, before.current), wholeBytes(total, before.total)]
  const share = all > 0 ? Math.min(100, Math.floor((done / all) * 1000) / 10) : 0
  return { ...before, phase, fileName: fileName.slice(0, 1024), current: done, total: all, percentage: Math.max(before.percentage, share) }
}

const wholeBytes = (bytes: number | undefined, before: number): number =>
  bytes === undefined ? before : Number.isSafeInteger(Math.trunc(bytes)) ? Math.max(0, Math.trunc(bytes)) : 0

type ProgressTarget = Readonly<{ opIds: Iterable<OperationId>; epoch: number | null; backend: BackendName }>

/** Publishes a state for every operation that shares the work. Does nothing while the bus is away. */
export function publishProgress(
  { opIds, epoch, backend }: ProgressTarget,
  state: ProgressState,
  { publisher, log }: { publisher: EventPublisher; log: Log },
): void {
  const { phase, fileName, current, total, percentage, seq } = state
  const nodeBus = publisher.nodeBus()
  if (nodeBus === null || !nodeBus.bus.isConnected()) return
  const { bus, nodeId } = nodeBus
  for (const op_id of opIds) {
    try {
      const target = { op_id, node_id: nodeId, backend, ...(epoch === null ? {} : { epoch }) }
      bus.publish(progress, { node: nodeId, op: op_id }, { ...target, file_name: fileName, current, total, percentage, phase, seq })
    } catch (error) {
      log.error('cannot publish progress', { op_id, error })
    }
  }
}
