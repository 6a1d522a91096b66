// Sends one claimed wish to its worker and draws the conclusion. A worker that answers `async` says within seconds
// whether it takes it on; one that answers at the end only gets a request that is held open as long as it may take.
import { type Bus, BusError } from '@muster/bus'
import type { Clock, Log, Step } from '@muster/host'
import {
  backendDelete,
  backendInstall,
  backendUpgrade,
  type CommandReply,
  type Failure,
  failureOf,
  FleetError,
  type IntentEvent,
  type NodeId,
  unreachable,
} from '@muster/protocol'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { Claimed } from '../store/intents.ts'
import type { PulseStore } from '../store/pulses.ts'
import type { Advance } from './advance.ts'
import { againInMs, eventOfReply } from './intents.pure.ts'

/** The contract gives workers 2 s to accept. */
const acceptWithinMs = 5_000
/** Whoever has not noted the answer by then is gone, and another one sends it. */
export const claimMs = 8_000
/** As long as that a controller may be silent before another takes over a request that it holds open. */
export const leaseMs = 15_000

export interface SendDeps {
  readonly bus: Bus
  readonly pulses: Pick<PulseStore, 'recordAnswered' | 'recordNoResponders'>
  readonly advance: Advance
  readonly holder: string
  readonly timeouts: { readonly installMs: number; readonly upgradeMs: number }
  /** Told where it stands, by its name in the catalogue of failures. */
  readonly step: Step
  readonly clock: Clock
  readonly log: Log
}

export type Send = (claimed: Claimed, now: number, signal: AbortSignal) => Promise<void>

export function createSend(deps: SendDeps): Send {
  return async (claimed, now, signal) => {
    const began = deps.clock.monotonic()
    const nowAgain = (): number => now + (deps.clock.monotonic() - began)
    await deps.step('RC.claim.after')
    const isAsync = claimed.features.includes('async')
    const record = isAsync ? claimed : await openRequest(claimed, now, deps)
    // Somebody wished for something else meanwhile.
    if (record === null) return
    await deps.step('RC.send.before')
    const event = await exchange({ ...claimed, ...record }, { isAsync, signal }, deps)
    await deps.step('RC.reply.before_record')
    await deps.advance({ record, event, now: nowAgain() })
    await deps.step('RC.reply.after_record')
  }
}

/** From here on it is work of the worker: it shows as such, and others of the same node go out beside it. */
async function openRequest(record: IntentRecord, now: number, { advance, holder }: SendDeps): Promise<IntentRecord | null> {
  return await advance({ record, event: { type: 'request_opened', holder, leaseUntil: now + leaseMs }, now })
}

async function exchange(claimed: Claimed, how: { isAsync: boolean; signal: AbortSignal }, deps: SendDeps): Promise<IntentEvent> {
  const { intent } = claimed
  const { installMs, upgradeMs } = deps.timeouts
  const longMs = intent.kind === 'upgrade' ? upgradeMs : installMs
  const options = { ...how, timeoutMs: how.isAsync ? acceptWithinMs : longMs }
  const asked = { id: intent.nodeId, incarnation: claimed.incarnation }
  try {
    const reply = await ask(claimed, options, deps)
    // What the worker said counts, also when the database does not take the news of it now.
    if (!claimed.isAnswering) await noted(deps.pulses.recordAnswered(asked), deps)
    return eventOfReply(intent.kind, intent.epoch, reply)
  } catch (error) {
    if (how.signal.aborted) return { type: 'unheard', againInMs: 0 }
    if (error instanceof FleetError) return { type: 'failed', epoch: intent.epoch, failure: error.failure }
    if (!(error instanceof BusError)) {
      deps.log.error('a command could not be sent, by a mistake of ours', { node: intent.nodeId, backend: intent.backend, error })
      return { type: 'failed', epoch: intent.epoch, failure: failureOf(error), mayRun: true }
    }
    return await eventOfBusError(error, { claimed, longMs, isAsync: how.isAsync, asked }, deps)
  }
}

/** An upgrade that nobody listens for goes once more as a forced install: that is how workers before the split do it. */
async function ask(claimed: Claimed, options: CommandOptions, { bus, log }: SendDeps): Promise<CommandReply> {
  try {
    return await sendCommand(bus, claimed, options)
  } catch (error) {
    if (claimed.intent.kind !== 'upgrade' || !(error instanceof BusError) || error.code !== 'no_responders') throw error
    const { nodeId: node, backend, opId: op } = claimed.intent
    log.warn('Falling back to legacy backend.install Force=true (old worker)', { node, backend, op })
    return await sendForcedInstall(bus, claimed, options)
  }
}

type Missed = Readonly<{ claimed: Claimed; longMs: number; isAsync: boolean; asked: Parameters<PulseStore['recordNoResponders']>[0] }>

async function eventOfBusError(error: BusError, missed: Missed, { pulses, log }: SendDeps): Promise<IntentEvent> {
  const { epoch } = missed.claimed.intent
  switch (error.code) {
    case 'no_responders': {
      await noted(pulses.recordNoResponders(missed.asked), { log })
      const message = `the worker reports, but nothing on it listens for ${missed.claimed.intent.kind} commands`
      return { type: 'failed', epoch, failure: { code: 'unavailable', retry: 'backoff', message } }
    }
    case 'timeout':
      // Nobody knows. A worker that answers at the end is still at it; another one is asked again.
      return missed.isAsync ? { type: 'unheard', againInMs } : { type: 'overdue', againInMs: missed.longMs }
    case 'disconnected':
    case 'closed':
      return { type: 'unheard', againInMs }
    case 'too_large':
    case 'invalid':
      return { type: 'failed', epoch, failure: garbled(error), mayRun: true }
    default:
      return { type: 'failed', epoch, failure: failureOf(error), mayRun: true }
  }
}

async function noted(note: Promise<void>, { log }: Pick<SendDeps, 'log'>): Promise<void> {
  await note.catch((error: unknown) => log.warn('whether a node answers could not be noted', { error }))
}

const garbled = (error: BusError): Failure => ({
  code: 'internal',
  retry: 'backoff',
  message: `the worker and this controller do not understand each other: ${error.message}`.slice(0, 8192),
})

// The command that carries a wish to its worker, as the bus has it.

type CommandOptions = Readonly<{ isAsync: boolean; timeoutMs: number; signal: AbortSignal }>

/** What a worker is asked; rejects as the bus does. */
async function sendCommand(bus: Bus, { intent, plan }: IntentRecord, options: CommandOptions): Promise<CommandReply> {
  const to = { node: intent.nodeId }
  const { timeoutMs, signal } = options
  const about = aboutOf({ intent }, options)
  switch (intent.kind) {
    case 'install':
      return await bus.request(
        backendInstall,
        to,
        { ...about, ...sourceOf(plan), ...(plan.exact ? { exact: true } : {}) },
        { timeoutMs, signal },
      )
    case 'upgrade': {
      const strategy = plan.strategy === null ? {} : { strategy: plan.strategy }
      return await bus.request(backendUpgrade, to, { ...about, ...sourceOf(plan), ...strategy }, { timeoutMs, signal })
    }
    case 'delete':
      return await bus.request(backendDelete, to, about, { timeoutMs, signal })
    default:
      return unreachable(intent.kind)
  }
}

/**
 * For workers that know no `backend.upgrade`: an install that overwrites. The one place where `force` is sent; with it
 * goes the last trace of the original's wire from the controller.
 */
async function sendForcedInstall(bus: Bus, { intent, plan }: IntentRecord, options: CommandOptions): Promise<CommandReply> {
  const { timeoutMs, signal } = options
  const to: { node: NodeId } = { node: intent.nodeId }
  return await bus.request(backendInstall, to, { ...aboutOf({ intent }, options), ...sourceOf(plan), force: true }, { timeoutMs, signal })
}

function aboutOf({ intent }: Pick<IntentRecord, 'intent'>, { isAsync }: CommandOptions) {
  const { backend, opId, generation, epoch } = intent
  return { backend, op_id: opId, generation, epoch, ...(isAsync ? { async: true } : {}) }
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
