// Support for workers without the `async` feature (S1.23). They reply to a command when it is done, so their requests are held
// open under a lease that is renewed, also when they are overdue; they know neither op.status nor op.cancel, so their inventory is
// polled; and the oldest have no backend.upgrade, so they get an install that overwrites.
import { BusError, type Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { backendInstall, backendList, type BackendName, type CommandReply, type Intent, type NodeId } from '@muster/protocol'
import type { z } from 'zod'
import type { Advance } from './intent-work.ts'
import { isSatisfied } from './intents.pure.ts'
import type { IntentRecord } from '../store/intent-rows.ts'
import type { ClaimedIntent, IntentStore } from '../store/intents.ts'
import type { RequestLimits } from '../work/exchange.ts'

/** False: every worker is taken for one with the `async` feature, and nothing below is used. */
const areLegacyWorkersSupported = true

/** True: the worker replies at once whether it accepts a command, and reports the end by event and on query. */
export const isAsyncWorker = (features: readonly string[]): boolean => !areLegacyWorkersSupported || features.includes('async')

/**
 * A request is overdue much earlier; its reply still counts. After this time it is taken for lost. The request of a worker that
 * was restarted is due again at once (`node_pulses_turned` in the schema).
 */
export const lateReplyMs = 24 * 3_600_000

/** A controller may be silent this long before another one takes over a request that it holds open. */
const heldLeaseMs = 15_000

/** The request counts as work of the worker from now on: it is shown so, and further commands to the node go out beside it. */
export async function openRequest(
  record: IntentRecord,
  now: number,
  { advance, holder }: { advance: Advance; holder: string },
): Promise<IntentRecord | null> {
  return await advance({ record, event: { type: 'request_opened', holder, leaseUntil: now + heldLeaseMs }, now })
}

export interface HeldRequestsDeps {
  readonly intents: Pick<IntentStore, 'renew'>
  readonly holder: string
  /** A request has ended: more may be due for its node. */
  readonly onEnd: () => void
  readonly clock: Clock
  readonly log: Log
}

/** Requests that are answered minutes later. They take no lane of other work. */
export function createHeldRequests({ intents, holder, onEnd, clock, log }: HeldRequestsDeps) {
  const held = new Map<string, Readonly<{ nodeId: NodeId; backend: BackendName; done: Promise<void> }>>()
  let renewedAt = -Infinity
  return {
    hold({ nodeId, backend, generation, epoch }: Intent, request: Promise<void>): void {
      const key = `${nodeId} ${backend} ${generation} ${epoch}`
      const done = request
        .catch((error: unknown) => log.error('held request failed unexpectedly; retrying', { node: nodeId, backend, error }))
        .finally(() => {
          held.delete(key)
          onEnd()
        })
      held.set(key, { nodeId, backend, done })
    },
    /** Renews the leases of all held requests; true when that was due. */
    async renew(): Promise<boolean> {
      if (clock.monotonic() - renewedAt < heldLeaseMs / 3) return false
      renewedAt = clock.monotonic()
      await intents.renew(holder, heldLeaseMs, [...held.values()])
      return true
    },
    async drained(): Promise<void> {
      await Promise.all([...held.values()].map(({ done }) => done))
    },
  }
}

/** True: nothing on the worker listens for upgrades, so the upgrade is sent once more as an install. */
export const needsForcedInstall = ({ kind }: Intent, error: unknown): boolean =>
  areLegacyWorkersSupported && kind === 'upgrade' && error instanceof BusError && error.code === 'no_responders'

/** An install that overwrites. The only place that sends `force`. */
export async function sendForcedInstall(
  bus: Bus,
  { nodeId: node, backend, opId: op }: Intent,
  body: z.input<(typeof backendInstall)['request']>,
  { limits, log }: { limits: RequestLimits; log: Log },
): Promise<CommandReply> {
  log.warn('Falling back to legacy backend.install Force=true (old worker)', { node, backend, op })
  return await bus.request(backendInstall, { node }, { ...body, force: true }, limits)
}

export type LegacyQueryDeps = Readonly<{ bus: Bus; advance: Advance; request: RequestLimits }>

/** The inventory of the worker is all that can be read about its work. */
export async function queryLegacyWorker(row: ClaimedIntent, now: number, { bus, advance, request }: LegacyQueryDeps): Promise<void> {
  const { intent } = row
  const list = await bus.request(backendList, { node: intent.nodeId }, {}, request)
  if (list.error === undefined && isSatisfied(row, list)) {
    await advance({ record: row, event: { type: 'succeeded', note: '' }, now })
    return
  }
  // No controller holds the request of a cancelled intent any more, and the worker cannot be stopped: the install may still
  // finish there. An intent that waits for a result was accepted by a newer worker version than the one that runs now, which does
  // not know it.
  const isLost = intent.state === 'working' && intent.wait.for === 'result'
  if (intent.cancelRequested || isLost) await advance({ record: row, event: { type: 'unknown_to_worker', againInMs: 0 }, now })
}
