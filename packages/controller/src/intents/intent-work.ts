// Intents as work of the engine: sends due intents, takes over intents of a dead controller, marks overdue ones, and queries
// workers about quiet ones. It remembers nothing between rounds; events only wake it. Reports of workers settle intents. Every
// step of an intent is written by `advance`.
import { type Clock, createFailureStreak, type Log } from '@muster/host'
import {
  type BackendList,
  type Intent,
  type IntentEvent,
  isOpen,
  type NodeId,
  type OpStatusReply,
  type RetryPolicy,
  stepIntent,
} from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { ClaimedIntent, IntentStore, Read } from '../store/intents.ts'
import type { PinStore } from '../store/pins.ts'
import { claimLeaseMs, createEngine, createLanes, type Engine } from '../work/engine.ts'
import type { WorkKey } from '../work/exchange.ts'
import { digestToPin, eventOfEnd, isOfOtherGeneration, isSatisfied } from './intents.pure.ts'
import { createHeldRequests, isAsyncWorker } from './legacy.ts'
import type { Query, Send } from './send.ts'

/** Read at each use: administrators change them at run time. */
export interface IntentLimits {
  readonly installMs: number
  readonly upgradeMs: number
  /** After this time without a report a worker is queried. */
  readonly quietMs: number
  /** After this time without a sign of life an attempt has failed. */
  readonly stallMs: number
}

export interface IntentWorkDeps {
  readonly intents: IntentStore
  readonly advance: Advance
  readonly send: Send
  readonly query: Query
  /** Ends the intents of nodes that became agents, which install nothing. */
  readonly withdrawFromAgents: () => Promise<unknown>
  readonly holder: string
  readonly limits: IntentLimits
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

const lanes = 1_024
const queryLanes = 256
/** Intents or results per statement. */
const maxBatch = 200
/** Running intents are checked this often, however often the loop is woken. */
const watchEveryMs = 500
const cancelEveryMs = 1_000
/** Workers reply within milliseconds whether they accept a command; an unanswered command is queried after 2 s. */
const unansweredMs = 500

type DueIntent = Readonly<{ row: ClaimedIntent; now: number }>

export function createIntentWork(deps: IntentWorkDeps): Engine {
  const { intents, advance, send, query, holder, limits, clock, log } = deps
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
    await advanceAll(await intents.findLost(maxBatch), { type: 'lease_lost' })
    await advanceAll(await intents.findOverdue(limits, maxBatch), { type: 'overdue', againInMs: limits.installMs })
    const limit = Math.min(queries.free(), maxBatch)
    if (limit <= 0) return isMoreDue
    const { rows, now } = await intents.takeQuiet({ quietMs: limits.quietMs, unansweredMs, claimMs: claimLeaseMs, cancelEveryMs, limit })
    for (const row of rows) queries.add(query(row, now, signal))
    return isMoreDue
  }

  const engine = createEngine<DueIntent>(
    {
      what: 'cannot advance intents; retrying',
      lanes,
      batch: maxBatch,
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
        const { dueMs, watchMs, isBusy } = await intents.outlook(limits, claimedAt)
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

// The steps of intents: many in one statement, each guarded by the row version that the decision was based on. An intent that was
// changed meanwhile is read again, and the event is decided again.

type IntentMove = Readonly<{ record: IntentRecord; event: IntentEvent; /** Database time of the read. */ now: number }>
export type SettledIntent = Readonly<{ record: IntentRecord; intent: Intent }>

interface AdvanceDeps {
  readonly intents: IntentStore
  readonly retry: RetryPolicy
  /** Called with every intent that was settled here. */
  readonly onSettled: (settled: readonly SettledIntent[]) => void
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** Resolves with the written row; null when the event does not apply any more or could not be written. */
export type Advance = (move: IntentMove) => Promise<IntentRecord | null>

/** A round is lost only when another writer has changed the intent, for example in a storm of equal submissions. */
const maxRounds = 100

type QueuedMove = IntentMove & { readonly done: (record: IntentRecord | null) => void }

export function createAdvance(deps: AdvanceDeps): Advance {
  let queue: QueuedMove[] = []
  let isBusy = false
  const streak = createFailureStreak({ what: 'cannot record outcomes of intents; querying workers', ...deps })

  const drain = async (): Promise<void> => {
    isBusy = true
    while (queue.length > 0) {
      const batch = takeBatch(queue)
      queue = queue.filter((item) => !batch.includes(item))
      const moved = await apply(batch, deps).catch((error: unknown) => {
        // Nothing is lost: leases end, workers are queried, and they repeat their results.
        streak.failed({ error, rows: batch.length })
        return null
      })
      if (moved !== null) streak.recovered()
      for (const item of batch) item.done(moved?.get(keyOf(item.record.intent)) ?? null)
    }
    isBusy = false
  }
  return (move) =>
    new Promise((resolve) => {
      queue.push({ ...move, done: resolve })
      if (!isBusy) void drain()
    })
}

/** One event per intent, in the order of arrival. */
function takeBatch(queue: readonly QueuedMove[]): QueuedMove[] {
  const seen = new Set<string>()
  const batch: QueuedMove[] = []
  for (const item of queue) {
    const key = keyOf(item.record.intent)
    if (seen.has(key)) continue
    seen.add(key)
    batch.push(item)
    if (batch.length >= maxBatch) break
  }
  return batch
}

async function apply(batch: readonly IntentMove[], deps: AdvanceDeps): Promise<Map<string, IntentRecord>> {
  const written = new Map<string, IntentRecord>()
  let left = [...batch]
  for (let round = 0; left.length > 0 && round < maxRounds; round += 1) {
    if (round > 0) left = await readAgain(left, deps)
    const steps = left.flatMap(({ record, event, now }) => {
      const to = stepIntent(record.intent, event, { now, retry: deps.retry, chance: deps.random() })
      return to === null ? [] : [{ from: record, to, event: event.type, detail: detailOf(event) }]
    })
    const moved = new Set((await deps.intents.apply(steps)).map(({ nodeId, backend }) => `${nodeId} ${backend}`))
    const done = steps.filter(({ from }) => moved.has(keyOf(from.intent)))
    for (const { from, to } of done) written.set(keyOf(to), { ...from, intent: to, rowVersion: from.rowVersion + 1 })
    const ended = done.filter(({ to }) => !isOpen(to))
    if (ended.length > 0)
      reportSettled(
        ended.map(({ from, to }) => ({ record: from, intent: to })),
        deps,
      )
    const missed = new Set(steps.map(({ from }) => keyOf(from.intent)).filter((key) => !moved.has(key)))
    left = left.filter(({ record }) => missed.has(keyOf(record.intent)))
  }
  return written
}

async function readAgain(left: readonly IntentMove[], { intents }: AdvanceDeps): Promise<IntentMove[]> {
  const read = await Promise.all(left.map(({ record }) => intents.find(record.intent.nodeId, record.intent.backend)))
  return left.flatMap((move, index) => {
    const found = read[index]
    const [record] = found?.rows ?? []
    // A newer intent has replaced this one: its event does not count any more.
    if (record === undefined || found === undefined || record.intent.generation !== move.record.intent.generation) return []
    if (record.intent.epoch !== move.record.intent.epoch && isOfOneTry(move.event)) return []
    return [{ ...move, record, now: found.now }]
  })
}

/** A reply about one attempt does not apply to the next one; the end of an attempt names its attempt. */
const isOfOneTry = (event: IntentEvent): boolean => event.type !== 'succeeded' && event.type !== 'cancel_requested' && !('epoch' in event)

function reportSettled(settled: readonly SettledIntent[], { onSettled, log }: AdvanceDeps): void {
  for (const { intent } of settled) {
    const { nodeId, backend, kind, opId, attempts, lastFailure } = intent
    const about = { op: opId, kind, backend, node: nodeId, attempts }
    if (intent.state === 'dead')
      log.error('intent given up after the last attempt; retry it when the cause is fixed', { ...about, error: lastFailure?.message })
    else log.info('intent settled', { ...about, state: intent.state, ...(lastFailure === null ? {} : { error: lastFailure.message }) })
  }
  onSettled(settled)
}

function detailOf(event: IntentEvent): Record<string, unknown> {
  if ('failure' in event) return { failure: event.failure }
  return 'holder' in event ? { holder: event.holder } : {}
}

const keyOf = ({ nodeId, backend }: Pick<Intent, 'nodeId' | 'backend'>): string => `${nodeId} ${backend}`

// Reports of workers.

interface ResultsDeps {
  readonly intents: IntentStore
  readonly pins: Pick<PinStore, 'pin'>
  readonly advance: Advance
  /** Stores the last known progress: an end keeps the bytes that the row has. */
  readonly settleProgress: (keys: readonly WorkKey[]) => Promise<void>
  readonly log: Log
}

type Result = Readonly<{ nodeId: NodeId; reply: OpStatusReply }>

/** The row with the digest that this report gives to its operation. It is stored before the report settles the intent. */
export async function withPin<Row extends IntentRecord>(row: Row, reply: OpStatusReply, pins: Pick<PinStore, 'pin'>): Promise<Row> {
  const digest = digestToPin(row, reply)
  if (digest === null) return row
  const { nodeId, backend, generation } = row.intent
  return { ...row, plan: { ...row.plan, digest: await pins.pin({ nodeId, backend, generation, digest }) } }
}

type ConcernedIntent = Readonly<{ record: IntentRecord; reply: OpStatusReply; now: number }>

const maxPending = 20_000

/**
 * Settles intents by reports of workers: the result of an operation, and the inventory of a node. Every controller receives
 * both; the first to write wins.
 */
export function createResults({ intents, pins, advance, settleProgress, log }: ResultsDeps) {
  let queue: Result[] = []
  let isDraining = false

  const findConcerned = async (keys: readonly WorkKey[], results: readonly Result[]): Promise<ConcernedIntent[]> => {
    const { rows, now } = await intents.findByOps(keys)
    return results.flatMap(({ nodeId, reply }) => {
      const record = rows.find(({ intent }) => intent.nodeId === nodeId && intent.opId === reply.op_id)
      return record === undefined || isOfOtherGeneration(record.intent, reply) ? [] : [{ record, reply, now }]
    })
  }
  const settleOne = async ({ record, reply, now }: ConcernedIntent): Promise<void> => {
    const { plan } = await withPin(record, reply, pins)
    const event = eventOfEnd(plan, reply)
    if (event !== null) await advance({ record, event, now })
  }
  const settle = async (results: readonly Result[]): Promise<void> => {
    const keys = results.map(({ nodeId, reply }) => ({ nodeId, opId: reply.op_id }))
    await settleProgress(keys)
    const concerned = await findConcerned(keys, results)
    // One pin per operation covers all its nodes.
    const unpinned = new Map(
      concerned.filter(({ record, reply }) => digestToPin(record, reply) !== null).map((each) => [each.reply.op_id, each]),
    )
    for (const { record, reply } of unpinned.values()) await withPin(record, reply, pins)
    await Promise.all((unpinned.size === 0 ? concerned : await findConcerned(keys, results)).map(settleOne))
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
