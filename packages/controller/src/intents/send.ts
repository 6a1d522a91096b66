// Sends one claimed intent to its worker and applies the reply, and queries the worker of a quiet intent. A worker with the `async`
// feature replies within seconds whether it accepts the command; legacy.ts handles other workers.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendUpgrade,
  type CommandReply,
  failureOf,
  type IntentEvent,
  unreachable,
} from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { ClaimedIntent, IntentStore } from '../store/intents.ts'
import type { PinStore } from '../store/pins.ts'
import type { PulseStore } from '../store/pulses.ts'
import { tickOf } from '../work/exchange.pure.ts'
import { queryStatus, requestCancel, requestErrorOf, type RequestLimits } from '../work/exchange.ts'
import { type Advance, type IntentLimits, withPin } from './intent-work.ts'
import { againInMs, eventOfCancel, eventOfEnd, eventOfReply, eventOfStatus, isInProgress } from './intents.pure.ts'
import { isAsyncWorker, lateReplyMs, needsForcedInstall, openRequest, queryLegacyWorker, sendForcedInstall } from './legacy.ts'

/** The contract gives workers 2 s to accept. */
const acceptWithinMs = 5_000

export interface SendDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered' | 'recordNoResponders'>
  readonly advance: Advance
  readonly holder: string
  /** Called with the name of each step in the catalogue of failures. */
  readonly step: Step
  readonly clock: Clock
  readonly log: Log
}

export type Send = (claimed: ClaimedIntent, now: number, signal: AbortSignal) => Promise<void>

export function createSend(deps: SendDeps): Send {
  return async (claimed, now, signal) => {
    const began = deps.clock.monotonic()
    const nowAgain = (): number => now + (deps.clock.monotonic() - began)
    await deps.step('RC.claim.after')
    const isAsync = isAsyncWorker(claimed.features)
    const record = isAsync ? claimed : await openRequest(claimed, now, deps)
    // A newer intent has replaced it meanwhile.
    if (record === null) return
    await deps.step('RC.send.before')
    const event = await exchange({ ...claimed, ...record }, { isAsync, signal }, deps)
    await deps.step('RC.reply.before_record')
    await deps.advance({ record, event, now: nowAgain() })
    await deps.step('RC.reply.after_record')
  }
}

async function exchange(
  claimed: ClaimedIntent,
  { isAsync, signal }: { isAsync: boolean; signal: AbortSignal },
  deps: SendDeps,
): Promise<IntentEvent> {
  const { intent } = claimed
  const limits = { timeoutMs: isAsync ? acceptWithinMs : lateReplyMs, signal }
  const node = { id: intent.nodeId, incarnation: claimed.incarnation }
  const record = async (outcome: Promise<void>): Promise<void> =>
    await outcome.catch((error: unknown) => deps.log.warn('cannot record that a node answers', { error }))
  try {
    const reply = await sendCommand(claimed, { isAsync, limits }, deps)
    // The reply counts even when the database cannot record that the node answered.
    if (!claimed.isAnswering) await record(deps.pulses.recordAnswered(node))
    // A worker that replies only at the end is sent the same work again after a timeout, so a late failure is one of that work.
    return eventOfReply(intent.kind, isAsync ? intent.epoch : null, reply)
  } catch (error) {
    if (signal.aborted) return { type: 'unheard', againInMs: 0 }
    const failed = requestErrorOf(error, intent.kind)
    const { epoch } = intent
    switch (failed?.is) {
      case 'no_responders':
        await record(deps.pulses.recordNoResponders(node))
        return { type: 'failed', epoch, failure: failed.failure }
      case 'refused':
        return { type: 'failed', epoch, failure: failed.failure }
      case 'unknown':
        return { type: 'unheard', againInMs }
      case 'garbled':
        return { type: 'failed', epoch, failure: failed.failure, mayRun: true }
      case undefined:
        deps.log.error('command failed unexpectedly', { node: intent.nodeId, backend: intent.backend, error })
        return { type: 'failed', epoch, failure: failureOf(error), mayRun: true }
    }
  }
}

type CommandOptions = Readonly<{ isAsync: boolean; limits: RequestLimits }>

/** Rejects as the bus does. */
async function sendCommand(
  { intent, plan }: IntentRecord,
  { isAsync, limits }: CommandOptions,
  { bus, log }: SendDeps,
): Promise<CommandReply> {
  const to = { node: intent.nodeId }
  const { backend, opId, generation, epoch } = intent
  const about = { backend, op_id: opId, generation, epoch, ...(isAsync ? { async: true } : {}) }
  switch (intent.kind) {
    case 'install':
      return await bus.request(backendInstall, to, { ...about, ...sourceOf(plan), ...(plan.exact ? { exact: true } : {}) }, limits)
    case 'upgrade':
      try {
        const strategy = plan.strategy === null ? {} : { strategy: plan.strategy }
        return await bus.request(backendUpgrade, to, { ...about, ...sourceOf(plan), ...strategy }, limits)
      } catch (error) {
        if (!needsForcedInstall(intent, error)) throw error
        return await sendForcedInstall(bus, intent, { ...about, ...sourceOf(plan) }, { limits, log })
      }
    case 'delete':
      return await bus.request(backendDelete, to, about, limits)
    default:
      return unreachable(intent.kind)
  }
}

function sourceOf({ uri, digest, name, alias, mirrors, version, galleryUrl }: IntentRecord['plan']) {
  return {
    ...(uri === null ? {} : { uri }),
    ...(digest === null ? {} : { digest }),
    ...(name === null ? {} : { name }),
    ...(alias === null ? {} : { alias }),
    ...(mirrors.length === 0 ? {} : { mirrors: [...mirrors] }),
    ...(version === '' ? {} : { version }),
    ...(galleryUrl === '' ? {} : { gallery_url: galleryUrl }),
  }
}

// Queries workers about quiet intents, and repeats cancel requests until the worker confirms them. A reply settles the intent,
// shows that its work is alive, or shows a stall: then the work is cancelled on the worker and tried again.

const queryTimeoutMs = 5_000

export interface QueryDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered'>
  readonly intents: Pick<IntentStore, 'recordProgress'>
  readonly pins: Pick<PinStore, 'pin'>
  readonly advance: Advance
  readonly limits: Pick<IntentLimits, 'quietMs' | 'stallMs'>
  readonly log: Log
}

export type Query = (row: ClaimedIntent, now: number, signal: AbortSignal) => Promise<void>

export function createQuery(deps: QueryDeps): Query {
  return async (row, now, signal) => {
    const request = { timeoutMs: queryTimeoutMs, signal }
    try {
      if (!isAsyncWorker(row.features)) await queryLegacyWorker(row, now, { ...deps, request })
      else if (row.intent.cancelRequested) await cancel(row, now, { ...deps, request })
      else await query(row, now, { ...deps, request })
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

type QueryMeans = QueryDeps & { readonly request: RequestLimits }

async function query(row: ClaimedIntent, now: number, means: QueryMeans): Promise<void> {
  const { bus, intents, pins, advance, limits, log, request } = means
  const { intent, bytes } = row
  const reply = await queryStatus(bus, intent, request)
  const { quietMs, stallMs } = limits
  const event = eventOfStatus(await withPin(row, reply, pins), reply, { now, quietMs, stallMs })
  if (event === null) return
  const moved = await advance({ record: row, event, now })
  if (reply.state === 'running' && event.type === 'moved') await intents.recordProgress([tickOf(intent, bytes, reply)])
  // Another attempt may have begun meanwhile under the same ID; it is not cancelled.
  const isStalled = event.type === 'failed' && reply.state === 'running' && moved !== null
  if (!isStalled) return
  const { nodeId: node, opId: op, epoch, backend } = intent
  log.warn('intent stalled; cancelling it on the worker', { node, op, epoch, backend })
  // The intent already waits for its next attempt, so the end of this one changes nothing, unless it succeeded.
  const last = await requestCancel(bus, intent, request)
  const end = last.state === 'succeeded' ? eventOfEnd((await withPin(row, last, pins)).plan, last) : null
  if (end !== null) await advance({ record: row, event: end, now })
}

async function cancel(row: ClaimedIntent, now: number, { bus, pins, advance, request }: QueryMeans): Promise<void> {
  const { nodeId, replaced } = row.intent
  for (const opId of replaced) if (isInProgress(await requestCancel(bus, { nodeId, opId }, request))) return
  const reply = await requestCancel(bus, row.intent, request)
  const event = eventOfCancel(await withPin(row, reply, pins), reply)
  if (event !== null) await advance({ record: row, event, now })
}
