// Moves rows by what happened to them: many at once in one statement, each guarded by the row version it was decided on.
// A row that was moved meanwhile by somebody else is read again, and the event is judged anew.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import { isOpen, stepIntent, type Intent, type IntentEvent, type RetryPolicy } from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { IntentStore } from '../store/intents.ts'

export type Happened = Readonly<{ record: IntentRecord; event: IntentEvent; /** The database's time at which it was read. */ now: number }>
export type Settled = Readonly<{ record: IntentRecord; intent: Intent }>

export interface AdvanceDeps {
  readonly intents: IntentStore
  readonly retry: RetryPolicy
  /** Told of every row that came to an end here. */
  readonly onSettled: (settled: readonly Settled[]) => void
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

/** Resolves when it is written, with the row as it is then; null when the event meant nothing (any more), or could not be written. */
export type Advance = (happened: Happened) => Promise<IntentRecord | null>

/** In one statement. */
const maxBatch = 200
/** Whoever came first has moved the row on, so a round is lost only to something that was done: a storm of equal wishes, say. */
const maxRounds = 100

type Waiting = Happened & { readonly done: (record: IntentRecord | null) => void }

export function createAdvance(deps: AdvanceDeps): Advance {
  let queue: Waiting[] = []
  let isBusy = false
  const trouble = createFailureStreak({ what: 'the outcome of operations can not be recorded; it is asked for again', ...deps })

  const drain = async (): Promise<void> => {
    isBusy = true
    while (queue.length > 0) {
      const batch = takeBatch(queue)
      queue = queue.filter((item) => !batch.includes(item))
      const moved = await apply(batch, deps).catch((error: unknown) => {
        // Nothing is lost: leases end, and workers are asked and say their results again.
        trouble.failed({ error, rows: batch.length })
        return null
      })
      if (moved !== null) trouble.recovered()
      for (const item of batch) item.done(moved?.get(keyOf(item.record.intent)) ?? null)
    }
    isBusy = false
  }
  return (happened) =>
    new Promise((resolve) => {
      queue.push({ ...happened, done: resolve })
      if (!isBusy) void drain()
    })
}

/** Of one row one event at a time, in their order. */
function takeBatch(queue: readonly Waiting[]): Waiting[] {
  const seen = new Set<string>()
  const batch: Waiting[] = []
  for (const item of queue) {
    const key = keyOf(item.record.intent)
    if (seen.has(key)) continue
    seen.add(key)
    batch.push(item)
    if (batch.length >= maxBatch) break
  }
  return batch
}

async function apply(batch: readonly Happened[], deps: AdvanceDeps): Promise<Map<string, IntentRecord>> {
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

async function readAgain(left: readonly Happened[], { intents }: AdvanceDeps): Promise<Happened[]> {
  const read = await Promise.all(left.map(({ record }) => intents.find(record.intent.nodeId, record.intent.backend)))
  return left.flatMap((happened, index) => {
    const found = read[index]
    const [record] = found?.rows ?? []
    // A newer wish has the row now: what happened to the older one is nobody's business any more.
    if (record === undefined || found === undefined || record.intent.generation !== happened.record.intent.generation) return []
    if (record.intent.epoch !== happened.record.intent.epoch && isOfOneTry(happened.event)) return []
    return [{ ...happened, record, now: found.now }]
  })
}

/** An answer to one try says nothing of the next; how it ended does, and says of which try it speaks. */
const isOfOneTry = (event: IntentEvent): boolean => event.type !== 'succeeded' && event.type !== 'cancel_requested' && !('epoch' in event)

function settle(settled: readonly Settled[], { onSettled, log }: AdvanceDeps): void {
  for (const { intent } of settled) {
    const { nodeId, backend, kind, opId, attempts, lastFailure } = intent
    const about = { op: opId, kind, backend, node: nodeId, attempts }
    if (intent.state === 'dead')
      log.error('gave up after the last attempt; retry it when the cause is mended', { ...about, error: lastFailure?.message })
    else log.info('a wish was settled', { ...about, state: intent.state, ...(lastFailure === null ? {} : { error: lastFailure.message }) })
  }
  onSettled(settled)
}

function detailOf(event: IntentEvent): Record<string, unknown> {
  if ('failure' in event) return { failure: event.failure }
  return 'holder' in event ? { holder: event.holder } : {}
}

const keyOf = ({ nodeId, backend }: Pick<Intent, 'nodeId' | 'backend'>): string => `${nodeId} ${backend}`
