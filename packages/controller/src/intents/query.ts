// Asks workers about work of which nothing was heard for a while, or which an administrator has called off. An answer
// settles it, shows that it lives, or shows that it does not: then it is cancelled there and tried again.
import type { Bus } from '@muster/bus'
import type { Log } from '@muster/host'
import { backendList, opCancel, opStatus, type OpStatusReply } from '@muster/protocol'
import type { Claimed, IntentStore } from '../store/intents.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { Advance } from './advance.ts'
import { eventOfEnd, eventOfStatus, isSatisfied, tickOf } from './intents.pure.ts'

const answerWithinMs = 5_000

export interface AskDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered'>
  readonly intents: Pick<IntentStore, 'recordProgress'>
  readonly advance: Advance
  readonly quietMs: number
  readonly stallMs: number
  readonly log: Log
}

export type Ask = (row: Claimed, now: number, signal: AbortSignal) => Promise<void>

export function createAsk(deps: AskDeps): Ask {
  return async (row, now, signal) => {
    try {
      if (!row.features.includes('async')) await askLegacy(row, now, { ...deps, signal })
      else if (row.intent.cancelRequested) await callOff(row, now, { ...deps, signal })
      else await askStatus(row, now, { ...deps, signal })
      // It met no responders before, and has answered now.
      if (!row.isAnswering) await deps.pulses.recordAnswered({ id: row.intent.nodeId, incarnation: row.incarnation })
    } catch (error) {
      if (signal.aborted) return
      // What is not answered is asked again. It says nothing of the node: its due tries, which carry out something, do.
      const { nodeId: node, backend } = row.intent
      deps.log.debug('a worker did not say how its work goes', { node, backend, error })
    }
  }
}

type Now = AskDeps & { readonly signal: AbortSignal }

async function askStatus(row: Claimed, now: number, { bus, intents, advance, quietMs, stallMs, log, signal }: Now): Promise<void> {
  const { nodeId: node, opId, epoch } = row.intent
  const to = { timeoutMs: answerWithinMs, signal }
  const reply = await bus.request(opStatus, { node }, { op_id: opId }, to)
  const event = eventOfStatus(row, reply, { now, quietMs, stallMs })
  if (event === null) return
  const moved = await advance({ record: row, event, now })
  if (reply.state === 'running' && event.type === 'moved') await intents.recordProgress([tickOf(row, reply)])
  // Another try may have begun meanwhile, under the same id: that one is left alone.
  const isStalled = event.type === 'failed' && reply.state === 'running' && moved !== null
  if (!isStalled) return
  log.warn('work showed no sign of life; it is cancelled on the worker and tried again', {
    node,
    op: opId,
    epoch,
    backend: row.intent.backend,
  })
  // The row waits for its next try already, so what the worker says of this one ends nothing; unless it was done after all.
  const last = await bus.request(opCancel, { node }, { op_id: opId }, to)
  if (last.state === 'succeeded') await settle(row, last, { advance, now })
}

/** Until the worker confirms it, or its true end came first. */
async function callOff(row: Claimed, now: number, { bus, advance, signal }: Now): Promise<void> {
  const { nodeId: node, opId } = row.intent
  const reply = await bus.request(opCancel, { node }, { op_id: opId }, { timeoutMs: answerWithinMs, signal })
  const isOther = reply.generation !== undefined && reply.generation !== row.intent.generation
  if (reply.state === 'unknown' || isOther) await advance({ record: row, event: { type: 'unknown_to_worker', againInMs: 0 }, now })
  else await settle(row, reply, { advance, now })
}

async function settle(row: Claimed, reply: OpStatusReply, { advance, now }: { advance: Advance; now: number }): Promise<void> {
  const event = eventOfEnd(reply)
  if (event !== null) await advance({ record: row, event, now })
}

/** A worker of the original knows neither `op.status` nor `op.cancel`: what it lists is all that can be learnt. */
async function askLegacy(row: Claimed, now: number, { bus, advance, signal }: Now): Promise<void> {
  const { nodeId: node, cancelRequested } = row.intent
  const list = await bus.request(backendList, { node }, {}, { timeoutMs: answerWithinMs, signal })
  if (list.error === undefined && isSatisfied(row, list)) await advance({ record: row, event: { type: 'succeeded', note: '' }, now })
  // Nobody holds its request any more, and it can't be told to stop: it may still come to its end there.
  else if (cancelRequested) await advance({ record: row, event: { type: 'unknown_to_worker', againInMs: 0 }, now })
  // It was accepted by a newer worker than the one that runs there now, which has never heard of it.
  else if (row.intent.state === 'working' && row.intent.wait.for === 'result')
    await advance({ record: row, event: { type: 'unknown_to_worker', againInMs: 0 }, now })
}
