// Sends one claimed intent to its worker and applies the reply. A worker with the `async` feature replies within seconds whether
// it accepts the command; legacy.ts handles other workers.
import type { Bus } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendUpgrade,
  failureOf,
  unreachable,
  type CommandReply,
  type IntentEvent,
} from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { ClaimedIntent } from '../store/intents.ts'
import type { PulseStore } from '../store/pulses.ts'
import { requestErrorOf, type RequestLimits } from '../work/exchange.ts'
import { isAsyncWorker, needsForcedInstall, openRequest, sendForcedInstall } from './legacy.ts'
import type { Advance } from './intent-work.ts'
import { againInMs, eventOfReply } from './intents.pure.ts'

/** The contract gives workers 2 s to accept. */
const acceptWithinMs = 5_000

export interface SendDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered' | 'recordNoResponders'>
  readonly advance: Advance
  readonly holder: string
  readonly timeouts: { readonly installMs: number; readonly upgradeMs: number }
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
  const { installMs, upgradeMs } = deps.timeouts
  const longMs = intent.kind === 'upgrade' ? upgradeMs : installMs
  const limits = { timeoutMs: isAsync ? acceptWithinMs : longMs, signal }
  const node = { id: intent.nodeId, incarnation: claimed.incarnation }
  const record = async (outcome: Promise<void>): Promise<void> =>
    await outcome.catch((error: unknown) => deps.log.warn('cannot record that a node answers', { error }))
  try {
    const reply = await sendCommand(claimed, { isAsync, limits }, deps)
    // The reply counts even when the database cannot record that the node answered.
    if (!claimed.isAnswering) await record(deps.pulses.recordAnswered(node))
    return eventOfReply(intent.kind, intent.epoch, reply)
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
        // A worker that replies only at the end is still working; any other worker is sent the command again.
        return failed.hasTimedOut && !isAsync ? { type: 'overdue', againInMs: longMs } : { type: 'unheard', againInMs }
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
