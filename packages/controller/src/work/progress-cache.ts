// What workers say of their bytes while they work. Every controller hears every tick; here is the latest of each, for
// showing at once, and once a second what is new is stored. A tick decides nothing: all of them may be lost.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import type { NodeId, OperationId, Progress } from '@muster/protocol'
import type { BytesSeen } from '../store/intent-rows.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'

/** Ids come from the bus, so what is remembered of them is bounded: of all, and of one node, that it may harm itself only. */
const maxRemembered = 50_000
const maxOfOneNode = 256
const forgetAfterMs = 300_000
const flushEveryMs = 1_000
/** Also how often those who watch are told. */
const tellEveryMs = 250
/** Tries of which the highest percentage is remembered. */
const maxPeaks = 8

/** How far one try came at most. */
type Peak = Readonly<{ epoch: number | null; percentage: number }>
type Entry = Readonly<{ tick: ProgressTick; peaks: readonly Peak[]; heardAt: number }> & { isStored: boolean }
export type TickKey = Readonly<{ nodeId: NodeId; opId: OperationId }>
/** `heardAt`: to tell which was heard last. `epoch`: of which try; null when the worker does not say. */
export type BytesHeard = BytesSeen & Readonly<{ heardAt: number; epoch: number | null }>

export interface ProgressBookDeps {
  /** Says which of it is about work under way. */
  readonly recordProgress: IntentStore['recordProgress']
  /** Told every 250 ms what was heard of since. */
  readonly onTicks: (keys: readonly TickKey[]) => void
  readonly clock: Clock
  readonly log: Log
}

export function createProgressBook({ recordProgress, onTicks, clock, log }: ProgressBookDeps) {
  const pages = createPages()
  let news = new Map<string, TickKey>()
  const trouble = createFailureStreak({ what: 'progress can not be stored', clock, log })

  const receive = (message: Progress): void => {
    const key = { nodeId: message.node_id, opId: message.op_id }
    const known = pages.get(key)
    const seq = message.seq ?? null
    if (known !== undefined && seq !== null && known.tick.seq !== null && seq <= known.tick.seq) return
    if (pages.put(entryOf(message, known, clock.monotonic()))) news.set(keyOf(key), key)
  }
  const store = async (entries: readonly Entry[]): Promise<void> => {
    const fresh = entries.filter((entry) => !entry.isStored)
    if (fresh.length === 0) return
    try {
      const open = new Set((await recordProgress(fresh.map((entry) => entry.tick))).map(keyOf))
      for (const entry of fresh) {
        entry.isStored = true
        // Nobody asked for it, or it has come to its end.
        if (!open.has(keyOf(entry.tick))) pages.forget(entry.tick)
      }
      trouble.recovered()
    } catch (error) {
      trouble.failed({ error, ticks: fresh.length })
    }
  }
  const flush = async (): Promise<void> => {
    await store(pages.all())
    const old = clock.monotonic() - forgetAfterMs
    for (const { tick, heardAt } of pages.all()) if (heardAt < old) pages.forget(tick)
  }
  const tell = (): void => {
    const keys = [...news.values()]
    news = new Map()
    onTicks(keys)
  }

  return {
    receive,
    heard: (nodeId: NodeId, opId: OperationId, since: number): BytesHeard | null => bytesOf(pages.get({ nodeId, opId }), since),
    /** What was said of these is stored now, before their end is: an end keeps the bytes that the row has. Never rejects. */
    settle: (keys: readonly TickKey[]): Promise<void> => store(keys.flatMap((key) => pages.get(key) ?? [])),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      let flushedAt = clock.monotonic()
      while (!signal.aborted) {
        tell()
        if (clock.monotonic() - flushedAt >= flushEveryMs) {
          await flush()
          flushedAt = clock.monotonic()
        }
        await clock.sleep(tellEveryMs, signal).catch(() => undefined)
      }
    },
  }
}

/** The latest of each, by node: full for one that names too many is not full for others. */
function createPages() {
  const nodes = new Map<NodeId, Map<OperationId, Entry>>()
  let count = 0
  return {
    get: ({ nodeId, opId }: TickKey): Entry | undefined => nodes.get(nodeId)?.get(opId),
    all: (): Entry[] => [...nodes.values()].flatMap((page) => [...page.values()]),
    /** False: there is no room for it. */
    put(entry: Entry): boolean {
      const { nodeId, opId } = entry.tick
      const page = nodes.get(nodeId) ?? new Map<OperationId, Entry>()
      const isNew = !page.has(opId)
      if (isNew && (count >= maxRemembered || page.size >= maxOfOneNode)) return false
      if (isNew) count += 1
      page.set(opId, entry)
      nodes.set(nodeId, page)
      return true
    },
    forget({ nodeId, opId }: TickKey): void {
      const page = nodes.get(nodeId)
      if (page?.delete(opId) !== true) return
      count -= 1
      if (page.size === 0) nodes.delete(nodeId)
    },
  }
}

const keyOf = ({ nodeId, opId }: { nodeId: string; opId: string }): string => `${nodeId} ${opId}`

function entryOf(message: Progress, known: Entry | undefined, heardAt: number): Entry {
  const { node_id: nodeId, op_id: opId, phase, file_name: fileName, current, total, seq = null, epoch = null } = message
  const before = known?.peaks ?? []
  // Within one try a bar never goes back, also when the worker was restarted.
  const percentage = Math.max(message.percentage, before.find((peak) => peak.epoch === epoch)?.percentage ?? 0)
  const peaks = [...before.filter((peak) => peak.epoch !== epoch), { epoch, percentage }].slice(-maxPeaks)
  return { tick: { nodeId, opId, phase, fileName, current, total, percentage, seq, epoch }, peaks, heardAt, isStored: false }
}

/** `since`: the first try of the attempt. What was said of an earlier one is about an attempt that failed. */
function bytesOf(entry: Entry | undefined, since: number): BytesHeard | null {
  if (entry === undefined || (entry.tick.epoch !== null && entry.tick.epoch < since)) return null
  const { phase, fileName, current, total, seq, epoch } = entry.tick
  const ofAttempt = entry.peaks.filter((peak) => peak.epoch === epoch || (peak.epoch !== null && peak.epoch >= since))
  const percentage = Math.max(...ofAttempt.map((peak) => peak.percentage))
  return { phase, fileName, current, total, percentage, seq, heardAt: entry.heardAt, epoch }
}
