// The latest progress message of each operation on each node. Every controller receives every message; it is shown at once and
// stored once a second. Progress decides nothing: all of it may be lost.
import { createFailureStreak, createLoop, type Clock, type Log } from '@muster/host'
import type { NodeId, OperationId, Progress } from '@muster/protocol'
import type { BytesSeen } from '../store/intent-rows.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'
import { kindOfWork, type WorkKind } from './exchange.pure.ts'
import type { WorkKey } from './exchange.ts'

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
type Entry = Readonly<{ tick: ProgressTick; peaks: readonly Peak[]; receivedAt: number }> & { isStored: boolean }
/** `receivedAt`: orders messages of several nodes. `epoch`: the try; null when the worker does not report it. */
export type ReceivedProgress = BytesSeen & Readonly<{ receivedAt: number; epoch: number | null }>

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
      const open = new Set((await Promise.all(recorded)).flat().map(keyOf))
      for (const entry of fresh) {
        entry.isStored = true
        // Unknown work, or work that has ended.
        if (!open.has(keyOf(entry.tick))) entries.forget(entry.tick)
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
      if (entries.put(entryOf(message, known, clock.monotonic()))) news.set(keyOf(key), key)
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

function entryOf(message: Progress, known: Entry | undefined, receivedAt: number): Entry {
  const { node_id: nodeId, op_id: opId, phase, file_name: fileName, current, total, seq = null, epoch = null } = message
  const before = known?.peaks ?? []
  // Within one try the percentage never falls, also when the worker was restarted.
  const percentage = Math.max(message.percentage, before.find((peak) => peak.epoch === epoch)?.percentage ?? 0)
  const peaks = [...before.filter((peak) => peak.epoch !== epoch), { epoch, percentage }].slice(-maxPeaks)
  return { tick: { nodeId, opId, phase, fileName, current, total, percentage, seq, epoch }, peaks, receivedAt, isStored: false }
}

/** `since`: the first try of the attempt. Progress of an earlier one belongs to an attempt that failed. */
function bytesOf(entry: Entry | undefined, since: number): ReceivedProgress | null {
  if (entry === undefined || (entry.tick.epoch !== null && entry.tick.epoch < since)) return null
  const { phase, fileName, current, total, seq, epoch } = entry.tick
  const ofAttempt = entry.peaks.filter((peak) => peak.epoch === epoch || (peak.epoch !== null && peak.epoch >= since))
  const percentage = Math.max(...ofAttempt.map((peak) => peak.percentage))
  return { phase, fileName, current, total, percentage, seq, receivedAt: entry.receivedAt, epoch }
}
