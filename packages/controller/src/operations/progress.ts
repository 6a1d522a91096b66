// The progress of operations: the latest message of each operation on each node, the bar that never goes back, and updates for
// listeners. Every controller receives every message; bytes are shown at once and stored once a second, and percentages are shown
// when they are stored, so that no controller shows less after another one was killed. Progress decides nothing: all of it may
// be lost.
import { type Clock, createFailureStreak, createLoop, type Log } from '@muster/host'
import type { NodeId, OperationId, OperationView, Progress } from '@muster/protocol'
import type { EventHub } from '../events/feed.ts'
import type { ReportedBytes } from '../store/intent-rows.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'
import type { OperationStore } from '../store/operations.ts'
import { kindOfWork, type WorkKind } from '../work/exchange.pure.ts'
import type { WorkKey } from '../work/exchange.ts'

/**
 * IDs come from the bus and cannot be trusted, so memory for them is bounded: in total, and per node, so that a node harms only
 * itself.
 */
const maxEntries = 50_000
const maxPerNode = 256
const forgetAfterMs = 300_000
const storeEveryMs = 1_000
const showEveryMs = 250
/** Tries whose highest percentage is kept. */
const maxPeaks = 8

type Peak = Readonly<{ epoch: number | null; percentage: number }>
/** The source has delivered nothing since `since`, in milliseconds of this controller's clock; not stored. */
export type SourceSilence = Readonly<{ since: number; server: string; reason: string }>
type Entry = Readonly<{ tick: ProgressTick; peaks: readonly Peak[]; receivedAt: number; silence: SourceSilence | null }> & {
  isStored: boolean
}
/** `receivedAt`: orders messages of several nodes. `epoch`: the try; null when the worker does not report it. */
export type ReceivedProgress = ReportedBytes & Readonly<{ receivedAt: number; epoch: number | null; silence: SourceSilence | null }>

type RecordProgress = IntentStore['recordProgress']

export interface ProgressCacheDeps {
  /** Each returns which of the ticks are about work in progress. */
  readonly recordProgress: Readonly<Record<WorkKind, RecordProgress>>
  /** Called every 250 ms with the work that has new progress. */
  readonly onTicks: (keys: readonly WorkKey[]) => void
  readonly clock: Clock
  readonly log: Log
}

export function createProgressCache({ recordProgress, onTicks, clock, log }: ProgressCacheDeps) {
  const entries = createEntries()
  let news = new Map<string, WorkKey>()
  const loop = createLoop({ what: 'cannot publish progress; retrying', clock, log })
  const streak = createFailureStreak({ what: 'cannot store progress; retrying', clock, log })

  const store = async (all: readonly Entry[]): Promise<void> => {
    const fresh = all.filter((entry) => !entry.isStored)
    if (fresh.length === 0) return
    try {
      const byKind = Map.groupBy(fresh, ({ tick }) => kindOfWork(tick.opId))
      const recorded = [...byKind].map(([kind, ofKind]) => recordProgress[kind](ofKind.map(({ tick }) => tick)))
      const open = new Map((await Promise.all(recorded)).flat().map((each) => [keyOf(each), each.isLocked === true]))
      for (const entry of fresh) {
        const isLocked = open.get(keyOf(entry.tick))
        // The last report before a stall has no successor, so it is stored again.
        entry.isStored = isLocked !== true
        // Unknown work, or work that has ended.
        if (isLocked === undefined) entries.forget(entry.tick)
        // A percentage is shown when it is stored.
        else if (!isLocked) news.set(keyOf(entry.tick), { nodeId: entry.tick.nodeId, opId: entry.tick.opId })
      }
      streak.recovered()
    } catch (error) {
      streak.failed({ error, ticks: fresh.length })
    }
  }
  const storeAll = async (): Promise<void> => {
    await store(entries.all())
    const old = clock.monotonic() - forgetAfterMs
    for (const { tick, receivedAt } of entries.all()) if (receivedAt < old) entries.forget(tick)
  }
  const show = (): void => {
    const keys = [...news.values()]
    news = new Map()
    onTicks(keys)
  }

  return {
    receive(message: Progress): void {
      const key = { nodeId: message.node_id, opId: message.op_id }
      const known = entries.get(key)
      const seq = message.seq ?? null
      if (known !== undefined && seq !== null && known.tick.seq !== null && seq <= known.tick.seq) return
      if (entries.put(entryOf(message, known, clock))) news.set(keyOf(key), key)
    },
    latest: (nodeId: NodeId, opId: OperationId, since: number): ReceivedProgress | null => bytesOf(entries.get({ nodeId, opId }), since),
    /** Stores the progress of this work before its end is stored: an end keeps the bytes in the row. Never rejects. */
    settle: (keys: readonly WorkKey[]): Promise<void> => store(keys.flatMap((key) => entries.get(key) ?? [])),
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      let storedAt = clock.monotonic()
      await loop.run(async () => {
        show()
        if (clock.monotonic() - storedAt >= storeEveryMs) {
          await storeAll()
          storedAt = clock.monotonic()
        }
        return showEveryMs
      }, signal)
    },
  }
}

/** By node: a node that names too many operations fills only its own share. */
function createEntries() {
  const nodes = new Map<NodeId, Map<OperationId, Entry>>()
  let count = 0
  return {
    get: ({ nodeId, opId }: WorkKey): Entry | undefined => nodes.get(nodeId)?.get(opId),
    all: (): Entry[] => [...nodes.values()].flatMap((ofNode) => [...ofNode.values()]),
    /** False: there is no room for it. */
    put(entry: Entry): boolean {
      const { nodeId, opId } = entry.tick
      const ofNode = nodes.get(nodeId) ?? new Map<OperationId, Entry>()
      const isNew = !ofNode.has(opId)
      if (isNew && (count >= maxEntries || ofNode.size >= maxPerNode)) return false
      if (isNew) count += 1
      ofNode.set(opId, entry)
      nodes.set(nodeId, ofNode)
      return true
    },
    forget({ nodeId, opId }: WorkKey): void {
      const ofNode = nodes.get(nodeId)
      if (ofNode?.delete(opId) !== true) return
      count -= 1
      if (ofNode.size === 0) nodes.delete(nodeId)
    },
  }
}

const keyOf = ({ nodeId, opId }: { nodeId: string; opId: string }): string => `${nodeId} ${opId}`

function entryOf(message: Progress, known: Entry | undefined, clock: Clock): Entry {
  const { node_id: nodeId, op_id: opId, phase, file_name: fileName, current, total, seq = null, epoch = null } = message
  const before = known?.peaks ?? []
  // Within one try the percentage never falls, also when the worker was restarted.
  const percentage = Math.max(message.percentage, before.find((peak) => peak.epoch === epoch)?.percentage ?? 0)
  const peaks = [...before.filter((peak) => peak.epoch !== epoch), { epoch, percentage }].slice(-maxPeaks)
  const { silent_ms: silentMs = 0, ...source } = message.source_wait ?? {}
  const silence = message.source_wait === undefined ? null : { server: '', reason: '', ...source, since: clock.now() - silentMs }
  const tick = { nodeId, opId, phase, fileName, current, total, percentage, seq, epoch }
  return { tick, peaks, receivedAt: clock.monotonic(), silence, isStored: false }
}

/** `since`: the first try of the attempt. Progress of an earlier one belongs to an attempt that failed. */
function bytesOf(entry: Entry | undefined, since: number): ReceivedProgress | null {
  if (entry === undefined || (entry.tick.epoch !== null && entry.tick.epoch < since)) return null
  const { phase, fileName, current, total, seq, epoch } = entry.tick
  const ofAttempt = entry.peaks.filter((peak) => peak.epoch === epoch || (peak.epoch !== null && peak.epoch >= since))
  const percentage = Math.max(...ofAttempt.map((peak) => peak.percentage))
  return { phase, fileName, current, total, percentage, seq, receivedAt: entry.receivedAt, epoch, silence: entry.silence }
}

interface BarsDeps {
  readonly operations: Pick<OperationStore, 'raiseProgress'>
  readonly clock: Clock
  readonly log: Log
}

const keepEveryMs = 1_000
const forgetBarAfterMs = 60_000

type Bar = { progress: number; fileName: string; isKept: boolean; shownAt: number }

/**
 * Keeps the progress of operations from going back: when a node turns out to have more to fetch than expected, or when an attempt
 * fails and starts again. The shown progress is stored once a second, so that no controller shows less later.
 */
export function createBars({ operations, clock, log }: BarsDeps) {
  const bars = new Map<OperationId, Bar>()
  const loop = createLoop({ what: 'cannot store the progress of operations; retrying', clock, log })

  const keep = async (): Promise<void> => {
    const old = clock.monotonic() - forgetBarAfterMs
    for (const [id, bar] of bars) if (bar.isKept && bar.shownAt < old) bars.delete(id)
    const raised = [...bars].filter(([, bar]) => !bar.isKept)
    const locked = await operations.raiseProgress(raised.map(([id, { progress, fileName }]) => ({ id, progress, fileName })))
    for (const [id, bar] of raised) bar.isKept = !locked.has(id)
  }

  return {
    /** Returns the view with at least the progress shown before. `kept`: the stored progress. */
    raise(view: OperationView, kept: number): OperationView {
      const bar = bars.get(view.id)
      // A finished operation does not change any more.
      if (bar === undefined && view.finished_at !== null) return view
      const progress = Math.max(view.progress, bar?.progress ?? 0)
      const isKept = bar?.progress === progress ? bar.isKept : progress <= kept
      bars.set(view.id, { progress, fileName: view.file_name, isKept, shownAt: clock.monotonic() })
      return { ...view, progress }
    },
    /** Runs until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      await loop.run(async () => {
        await keep()
        return keepEveryMs
      }, signal)
      // The last shown progress; without it another controller may show slightly less.
      await keep().catch(() => undefined)
    },
  }
}

interface ProgressFeedDeps {
  readonly operations: Pick<OperationStore, 'concernedBy'>
  readonly clock: Clock
  readonly log: Log
}

/** An operation on more nodes is large, so it is shown less often. */
const fewNodes = 50
const largeEveryMs = 1_000

/**
 * Sends operations to listeners while their progress changes, between stored changes. One round at a time: with a slow database
 * listeners get fewer updates, and nothing piles up.
 */
export function createProgressFeed({ operations, clock, log }: ProgressFeedDeps) {
  let hub: EventHub | null = null
  let isBusy = false
  const updated = new Map<string, WorkKey>()
  const moved = new Set<OperationId>()
  const restingUntil = new Map<OperationId, number>()

  const show = async (to: EventHub): Promise<void> => {
    const now = clock.monotonic()
    const keys = [...updated.values()]
    updated.clear()
    for (const [id, next] of restingUntil) if (next <= now) restingUntil.delete(id)
    for (const { id, nodes } of await operations.concernedBy(keys)) {
      moved.add(id)
      if (nodes > fewNodes && !restingUntil.has(id)) restingUntil.set(id, now)
    }
    const due = [...moved].filter((id) => (restingUntil.get(id) ?? now) <= now)
    for (const id of due) {
      moved.delete(id)
      if (restingUntil.has(id)) restingUntil.set(id, now + largeEveryMs)
    }
    await to.tick('operation', due)
  }

  return {
    onTicks(keys: readonly WorkKey[]): void {
      if (hub === null || hub.listenerCount() === 0) return updated.clear()
      for (const key of keys) updated.set(`${key.nodeId} ${key.opId}`, key)
      if (isBusy || (updated.size === 0 && moved.size === 0)) return
      isBusy = true
      void show(hub)
        .catch((error: unknown) => log.debug('cannot broadcast progress', { error }))
        .finally(() => (isBusy = false))
    },
    publishTo: (given: EventHub): void => void (hub = given),
  }
}
