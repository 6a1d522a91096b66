// Intents as work of the engine: sends due intents, takes over intents of a dead controller, marks overdue ones, and queries
// workers about quiet ones. It remembers nothing between rounds; events only wake it. Reports of workers settle intents.
import type { Clock, Log } from '@muster/host'
import type { BackendList, IntentEvent, NodeId, OpStatusReply } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { ClaimedIntent, IntentStore, Read } from '../store/intents.ts'
import { claimLeaseMs, createEngine, createLanes, type Engine } from '../work/engine.ts'
import type { WorkKey } from '../work/exchange.ts'
import type { Advance } from './advance.ts'
import { eventOfEnd, isOfOtherGeneration, isSatisfied } from './intents.pure.ts'
import { createHeldRequests, isAsyncWorker } from './legacy.ts'
import type { Query } from './query.ts'
import type { Send } from './send.ts'

export interface IntentWorkDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  readonly send: Send
  readonly query: Query
  /** Ends the intents of nodes that became agents, which install nothing. */
  readonly withdrawFromAgents: () => Promise<unknown>
  readonly holder: string
  readonly timeouts: { readonly installMs: number; readonly upgradeMs: number }
  readonly quietMs: number
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

const lanes = 1_024
const queryLanes = 256
const batch = 200
/** Running intents are checked this often, however often the loop is woken. */
const watchEveryMs = 500
const cancelEveryMs = 1_000
/** Workers reply within milliseconds whether they accept a command; an unanswered command is queried after 2 s. */
const unansweredMs = 500

type DueIntent = Readonly<{ row: ClaimedIntent; now: number }>

export function createIntentWork(deps: IntentWorkDeps): Engine {
  const { intents, advance, send, query, holder, timeouts, quietMs, clock, log } = deps
  const wake = (): void => engine.wake()
  const queries = createLanes({ size: queryLanes, onFree: wake, log })
  const held = createHeldRequests({ intents, holder, onEnd: wake, clock, log })
  let watchedAt = -Infinity
  /** Database time of the last claim. Until the first one everything that is due counts. */
  let claimedAt = 0

  const advanceAll = async ({ rows, now }: Read<IntentRecord>, event: IntentEvent): Promise<void> => {
    await Promise.all(rows.map((record) => advance({ record, event, now })))
  }
  /** In the order of design.md. True when intents of nodes that returned are due now. */
  const watch = async (signal: AbortSignal): Promise<boolean> => {
    let isMoreDue = false
    if (await held.renew()) {
      await deps.withdrawFromAgents()
      isMoreDue = await intents.park()
    }
    await advanceAll(await intents.findLost(batch), { type: 'lease_lost' })
    await advanceAll(await intents.findOverdue(timeouts, batch), { type: 'overdue', againInMs: timeouts.installMs })
    const limit = Math.min(queries.free(), batch)
    if (limit <= 0) return isMoreDue
    const { rows, now } = await intents.takeQuiet({ quietMs, unansweredMs, claimMs: claimLeaseMs, cancelEveryMs, limit })
    for (const row of rows) queries.add(query(row, now, signal))
    return isMoreDue
  }

  const engine = createEngine<DueIntent>(
    {
      what: 'cannot advance intents; retrying',
      lanes,
      batch,
      async claim(limit) {
        const { rows, now } = await intents.claim({ holder, leaseMs: claimLeaseMs, limit })
        claimedAt = now
        return rows.map((row) => ({ row, now }))
      },
      async run({ row, now }, signal) {
        if (isAsyncWorker(row.features)) await send(row, now, signal)
        else held.hold(row.intent, send(row, now, signal))
      },
      async tend(signal) {
        if (clock.monotonic() - watchedAt < watchEveryMs) return false
        watchedAt = clock.monotonic()
        return await watch(signal)
      },
      async nextMs() {
        const { dueMs, watchMs, isBusy } = await intents.outlook(timeouts, claimedAt)
        // A lease or a timeout that has ended is handled by the next watch.
        const watchInMs = watchMs === null ? Infinity : watchMs > 0 ? watchMs : watchEveryMs
        return Math.min(dueMs ?? Infinity, watchInMs, isBusy ? watchEveryMs : Infinity)
      },
    },
    deps,
  )
  return {
    wake: engine.wake,
    async run(signal) {
      await engine.run(signal)
      await Promise.all([queries.drained(), held.drained()])
    },
  }
}

interface ResultsDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  /** Stores the last known progress: an end keeps the bytes that the row has. */
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
  readonly log: Log
}

type Result = Readonly<{ nodeId: NodeId; reply: OpStatusReply }>

/** Results per statement. */
const maxBatch = 200
const maxPending = 20_000

/**
 * Settles intents by reports of workers: the result of an operation, and the inventory of a node. Every controller receives
 * both; the first to write wins.
 */
export function createResults({ intents, advance, settleProgress, log }: ResultsDeps) {
  let queue: Result[] = []
  let isDraining = false

  const settle = async (results: readonly Result[]): Promise<void> => {
    const keys = results.map(({ nodeId, reply }) => ({ nodeId, opId: reply.op_id }))
    await settleProgress(keys)
    const found = await intents.findByOps(keys)
    const moving = results.flatMap(({ nodeId, reply }) => {
      const event = eventOfEnd(reply)
      const record = found.rows.find(({ intent }) => intent.nodeId === nodeId && intent.opId === reply.op_id)
      if (event === null || record === undefined || isOfOtherGeneration(record.intent, reply)) return []
      return [advance({ record, event, now: found.now })]
    })
    await Promise.all(moving)
  }
  const drain = async (): Promise<void> => {
    isDraining = true
    while (queue.length > 0) {
      const results = queue.slice(0, maxBatch)
      queue = queue.slice(maxBatch)
      await settle(results).catch((error: unknown) =>
        log.warn('cannot record results; querying their workers', { count: results.length, error }),
      )
    }
    isDraining = false
  }

  return {
    receive(reply: OpStatusReply, nodeId: NodeId): void {
      // A result beyond the limit is lost here; its worker is queried.
      if (queue.length < maxPending) queue.push({ nodeId, reply })
      if (!isDraining) void drain()
    },

    /** Settles the open intents that the inventory of a node fulfills. */
    async settleByInventory(nodeId: NodeId, list: BackendList): Promise<void> {
      if (list.error !== undefined) return
      const { rows, now } = await intents.findOpen(nodeId)
      const done = rows.filter((record) => isSatisfied(record, list))
      await settleProgress(done.map(({ intent }) => intent))
      await Promise.all(done.map((record) => advance({ record, event: { type: 'succeeded', note: '' }, now })))
    },
  }
}
