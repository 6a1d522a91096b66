// Queries workers about quiet intents, and repeats cancel requests until the worker confirms them. A reply settles the intent,
// shows that its work is alive, or shows a stall: then the work is cancelled on the worker and tried again.
import type { Bus } from '@muster/bus'
import type { Log } from '@muster/host'
import type { ClaimedIntent, IntentStore } from '../store/intents.ts'
import type { PulseStore } from '../store/pulses.ts'
import { tickOf } from '../work/exchange.pure.ts'
import { queryStatus, requestCancel, type RequestLimits } from '../work/exchange.ts'
import { isAsyncWorker, queryLegacyWorker } from './legacy.ts'
import type { Advance } from './intent-work.ts'
import { eventOfCancel, eventOfEnd, eventOfStatus } from './intents.pure.ts'

const timeoutMs = 5_000

export interface QueryDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered'>
  readonly intents: Pick<IntentStore, 'recordProgress'>
  readonly advance: Advance
  readonly quietMs: number
  readonly stallMs: number
  readonly log: Log
}

export type Query = (row: ClaimedIntent, now: number, signal: AbortSignal) => Promise<void>

export function createQuery(deps: QueryDeps): Query {
  return async (row, now, signal) => {
    const limits = { timeoutMs, signal }
    try {
      if (!isAsyncWorker(row.features)) await queryLegacyWorker(row, now, { ...deps, limits })
      else if (row.intent.cancelRequested) await cancel(row, now, { ...deps, limits })
      else await query(row, now, { ...deps, limits })
      // The node had no responders before, and has answered now.
      if (!row.isAnswering) await deps.pulses.recordAnswered({ id: row.intent.nodeId, incarnation: row.incarnation })
    } catch (error) {
      if (signal.aborted) return
      // The query is repeated. Only commands of due attempts prove that a node does not answer.
      const { nodeId: node, backend } = row.intent
      deps.log.debug('status query failed', { node, backend, error })
    }
  }
}

type Means = QueryDeps & { readonly limits: RequestLimits }

async function query(row: ClaimedIntent, now: number, { bus, intents, advance, quietMs, stallMs, log, limits }: Means): Promise<void> {
  const { intent, bytes } = row
  const reply = await queryStatus(bus, intent, limits)
  const event = eventOfStatus(row, reply, { now, quietMs, stallMs })
  if (event === null) return
  const moved = await advance({ record: row, event, now })
  if (reply.state === 'running' && event.type === 'moved') await intents.recordProgress([tickOf(intent, bytes, reply)])
  // Another attempt may have begun meanwhile under the same ID; it is not cancelled.
  const isStalled = event.type === 'failed' && reply.state === 'running' && moved !== null
  if (!isStalled) return
  const { nodeId: node, opId: op, epoch, backend } = intent
  log.warn('intent stalled; cancelling it on the worker', { node, op, epoch, backend })
  // The intent already waits for its next attempt, so the end of this one changes nothing, unless it succeeded.
  const last = await requestCancel(bus, intent, limits)
  const end = last.state === 'succeeded' ? eventOfEnd(last) : null
  if (end !== null) await advance({ record: row, event: end, now })
}

async function cancel(row: ClaimedIntent, now: number, { bus, advance, limits }: Means): Promise<void> {
  const event = eventOfCancel(row.intent, await requestCancel(bus, row.intent, limits))
  if (event !== null) await advance({ record: row, event, now })
}
