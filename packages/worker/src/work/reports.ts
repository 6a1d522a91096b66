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
  type SourceWait,
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
export type WorkProgress = Readonly<{
  phase: Phase | null
  fileName?: string
  current?: number
  total?: number
  /** Where bytes come from. */ server?: string
}>

/** `seq` grows whenever something moved or showed a sign of life. */
export type ProgressState = Readonly<{
  phase: Phase | null
  fileName: string
  current: number
  total: number
  percentage: number
  seq: number
  server: string
  /** Set while the source delivers nothing. */
  wait: SourceWait | null
}>

export interface ProgressReporter {
  report(progress: WorkProgress): void
  /** The source asks for a pause of this length, for this reason. The pause is a sign of life until it ends. */
  wait(reason: string, ms: number): void
  /** The work continues, and no figure changed. */
  sign(): void
  now(): ProgressState
  /** Publishes the last state; nothing when the work is left to the next start. */
  end(how: 'succeeded' | 'failed' | 'cancelled' | 'left'): void
}

const intervalMs = 250
/** A source without a byte for so long is reported as silent. */
const silentAfterMs = 5_000
const fetching: ReadonlySet<Phase | null> = new Set(['resolving', 'downloading'])

interface ReporterDeps {
  readonly publish: (state: ProgressState) => void
  /** Grows with each call, over restarts too: receivers drop a lower number. */
  readonly nextSeq: () => number
  readonly clock: Clock
}

/**
 * The progress of one piece of work, published at a bounded rate: the first state at once, then at most one per interval, and
 * always the last. The caller only stores the state here; publishing happens outside of its call. Silence of a source is published
 * once: it is no sign of life, and must not hide from controllers that the work is stuck.
 */
export function createProgressReporter({ publish, nextSeq, clock }: ReporterDeps): ProgressReporter {
  const ended = new AbortController()
  let state: ProgressState = { phase: null, fileName: '', current: 0, total: 0, percentage: 0, seq: nextSeq(), server: '', wait: null }
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
  const put = (changed: ProgressState): void => {
    if (ended.signal.aborted) return
    state = { ...changed, seq: nextSeq() }
    isChanged = true
    if (isPublishing) return
    isPublishing = true
    void publishChanges()
  }
  const silence = createSilenceWatch({ clock, ended: ended.signal, now: () => state, put })
  const moveTo = (moved: ProgressState): void => {
    put({ ...moved, wait: null })
    silence.moved()
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
    wait: silence.pause,
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

interface SilenceWatchDeps {
  readonly clock: Clock
  readonly ended: AbortSignal
  readonly now: () => ProgressState
  readonly put: (state: ProgressState) => void
}

/** Reports a source that delivers nothing: once after a while, and repeatedly during a pause that the source asks for. */
function createSilenceWatch({ clock, ended, now, put }: SilenceWatchDeps) {
  let movedAt = clock.monotonic()
  let isWatching = false
  const isFetching = (): boolean => !ended.aborted && fetching.has(now().phase)

  const report = (given: string): void => {
    const reason = given.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 2048)
    const { server } = now()
    put({ ...now(), wait: { silent_ms: Math.round(clock.monotonic() - movedAt), server, reason } })
  }
  const watch = async (): Promise<void> => {
    for (let left = silentAfterMs; left > 0 && isFetching(); left = movedAt + silentAfterMs - clock.monotonic())
      await clock.sleep(left, ended).catch(() => undefined)
    isWatching = false
    if (isFetching() && now().wait === null) report('')
  }
  const signPause = async (reason: string, ms: number): Promise<void> => {
    const [began, endsAt] = [movedAt, clock.monotonic() + ms]
    while (!ended.aborted && movedAt === began && clock.monotonic() < endsAt) {
      report(reason)
      await clock.sleep(silentAfterMs, ended).catch(() => undefined)
    }
  }
  return {
    /** A byte or a sign of life arrived. */
    moved(): void {
      movedAt = clock.monotonic()
      if (isWatching || !isFetching()) return
      isWatching = true
      void watch()
    },
    pause: (reason: string, ms: number): void => void signPause(reason, ms),
  }
}

const isSame = (a: ProgressState, b: ProgressState): boolean =>
  a.phase === b.phase && a.fileName === b.fileName && a.current === b.current && a.total === b.total

/** Byte counts may shrink when content is fetched again; the percentage never does. */
function next(before: ProgressState, { phase, fileName = '', current, total, server = '' }: WorkProgress): ProgressState {
  const [done, all] = [wholeBytes(current, before.current), wholeBytes(total, before.total)]
  const share = all > 0 ? Math.min(100, Math.floor((done / all) * 1000) / 10) : 0
  const percentage = Math.max(before.percentage, share)
  return { ...before, phase, fileName: fileName.slice(0, 1024), current: done, total: all, percentage, server: server.slice(0, 512) }
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
  const { phase, fileName, current, total, percentage, seq, wait } = state
  const nodeBus = publisher.nodeBus()
  if (nodeBus === null || !nodeBus.bus.isConnected()) return
  const { bus, nodeId } = nodeBus
  for (const op_id of opIds) {
    try {
      const target = { op_id, node_id: nodeId, backend, ...(epoch === null ? {} : { epoch }) }
      const silence = wait === null ? {} : { source_wait: wait }
      const message = { ...target, file_name: fileName, current, total, percentage, phase, seq, ...silence }
      bus.publish(progress, { node: nodeId, op: op_id }, message)
    } catch (error) {
      log.error('cannot publish progress', { op_id, error })
    }
  }
}
