// Applies events to intents: many in one statement, each guarded by the row version that the decision was based on. An intent
// that was changed meanwhile is read again, and the event is decided again.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import { isOpen, stepIntent, type Intent, type IntentEvent, type RetryPolicy } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { IntentStore } from '../store/intents.ts'

export type IntentMove = Readonly<{ record: IntentRecord; event: IntentEvent; /** Database time of the read. */ now: number }>
export type SettledIntent = Readonly<{ record: IntentRecord; intent: Intent }>

export interface AdvanceDeps {
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

/** Intents per statement. */
const maxBatch = 200
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
      settle(
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

function settle(settled: readonly SettledIntent[], { onSettled, log }: AdvanceDeps): void {
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
