// What workers say of their bytes while they work. Every controller hears every tick; here is the latest of each, for
// showing at once, and once a second what is new is stored. A tick decides nothing: all of them may be lost.
import type { Bus, Subscription } from '@muster/bus'
import { createTrouble, type Clock, type Log } from '@muster/host'
import { progress, type NodeId, type OperationId, type Progress } from '@muster/protocol'
import type { BytesSeen } from '../store/intent-rows.ts'
import type { IntentStore, ProgressTick } from '../store/intents.ts'

/** Ids come from the bus: what is remembered of them is bounded, and forgotten when it is old. */
const maxRemembered = 50_000
const forgetAfterMs = 300_000
const flushEveryMs = 1_000

type Entry = Readonly<{ tick: ProgressTick; epoch: number | null; heardAt: number }> & { isStored: boolean }
export type TickKey = Readonly<{ nodeId: NodeId; opId: OperationId }>

export interface ProgressBookDeps {
  readonly bus: Bus
  readonly intents: Pick<IntentStore, 'recordProgress'>
  /** Told what was heard of, at most once in this time. */
  readonly onTicks: (keys: readonly TickKey[]) => void
  readonly clock: Clock
  readonly log: Log
}

/** Also how often those who watch are told. */
const tellEveryMs = 250

export function createProgressBook({ bus, intents, onTicks, clock, log }: ProgressBookDeps) {
  const entries = new Map<string, Entry>()
  let news = new Map<string, TickKey>()
  const trouble = createTrouble({ what: 'progress can not be stored', clock, log })

  const note = (message: Progress, { node, op }: { node: NodeId; op: OperationId }): void => {
    if (message.node_id !== node || message.op_id !== op) return
    const key = keyOf(node, op)
    const known = entries.get(key)
    const seq = message.seq ?? null
    if (known !== undefined && seq !== null && known.tick.seq !== null && seq <= known.tick.seq) return
    if (known === undefined && entries.size >= maxRemembered) return
    const { phase, file_name: fileName, current, total } = message
    // Within one try a bar never goes back, also when the worker was restarted; another try begins anew.
    const epoch = message.epoch ?? null
    const percentage = Math.max(message.percentage, known !== undefined && known.epoch === epoch ? known.tick.percentage : 0)
    const tick: ProgressTick = { nodeId: node, opId: op, phase, fileName, current, total, percentage, seq }
    entries.set(key, { tick, epoch, heardAt: clock.monotonic(), isStored: false })
    news.set(key, { nodeId: node, opId: op })
  }
  const flush = async (): Promise<void> => {
    const fresh = [...entries.values()].filter((entry) => !entry.isStored)
    try {
      await intents.recordProgress(fresh.map((entry) => entry.tick))
      for (const entry of fresh) entry.isStored = true
      trouble.over()
    } catch (error) {
      trouble.failed({ error, ticks: fresh.length })
    }
    const old = clock.monotonic() - forgetAfterMs
    for (const [key, entry] of entries) if (entry.heardAt < old) entries.delete(key)
  }
  const tell = (): void => {
    if (news.size === 0) return
    const keys = [...news.values()]
    news = new Map()
    onTicks(keys)
  }

  return {
    heard: (nodeId: string, opId: string): BytesSeen | null => bytesOf(entries.get(keyOf(nodeId, opId))),
    /** Until aborted. */
    async run(signal: AbortSignal): Promise<void> {
      const subscription = subscribe(bus, note, log)
      let flushedAt = clock.monotonic()
      while (!signal.aborted) {
        tell()
        if (clock.monotonic() - flushedAt >= flushEveryMs) {
          await flush()
          flushedAt = clock.monotonic()
        }
        await clock.sleep(tellEveryMs, signal).catch(() => undefined)
      }
      await subscription?.stop()
    },
  }
}

type Note = (message: Progress, from: { node: NodeId; op: OperationId }) => void

/** Without it operations are carried out all the same; only nobody sees their bytes move. */
function subscribe(bus: Bus, note: Note, log: Log): Subscription | null {
  try {
    return bus.subscribe(progress, { node: '*', op: '*' }, note)
  } catch (error) {
    log.warn('progress of operations can not be heard; results are', { error })
    return null
  }
}

const keyOf = (nodeId: string, opId: string): string => `${nodeId} ${opId}`

function bytesOf(entry: Entry | undefined): BytesSeen | null {
  if (entry === undefined) return null
  const { phase, fileName, current, total, percentage, seq } = entry.tick
  return { phase, fileName, current, total, percentage, seq }
}
