// Removals as work of the engine: sends nodes the command to delete the files of deleted models. A node that fails is tried again
// with backoff, an absent one when it returns.
import type { Bus } from '@muster/bus'
import type { Clock, Log } from '@muster/host'
import { backoffMs, modelDelete, type Failure } from '@muster/protocol'
import type { ModelRemovalStore, Removal } from '../store/model-removals.ts'
import { createEngine, type Engine } from '../work/engine.ts'
import { outcomeOf } from '../work/exchange.pure.ts'
import { requestErrorOf } from '../work/exchange.ts'

export interface RemovalsDeps {
  readonly bus: Bus
  readonly removals: ModelRemovalStore
  readonly holder: string
  readonly intervalMs: number
  readonly retry: Readonly<{ baseMs: number; maxMs: number }>
  readonly random: () => number
  readonly clock: Clock
  readonly log: Log
}

const lanes = 16
const batch = 8
const timeoutMs = 10_000
/** Longer than the request may take: a controller that has not recorded the reply by then is gone. */
const leaseMs = 15_000
/** After a command whose fate is unknown. */
const againInMs = 1_000
/** A removal that is due and cannot be claimed waits for its node, which wakes the loop, or for a process that still runs. */
const blockedMs = 1_000

export function createRemovals(deps: RemovalsDeps): Engine {
  const { removals, holder } = deps
  return createEngine<Removal>(
    {
      what: 'cannot remove model files; retrying',
      lanes,
      batch,
      claim: (limit) => removals.claim({ holder, leaseMs, limit }),
      run: (removal, signal) => remove(removal, deps, signal),
      async nextMs() {
        const nextMs = (await removals.nextDue()) ?? Infinity
        return nextMs > 0 ? nextMs : blockedMs
      },
    },
    deps,
  )
}

async function remove(removal: Removal, deps: RemovalsDeps, signal: AbortSignal): Promise<void> {
  const { bus, removals, log } = deps
  const { nodeId: node, model } = removal
  try {
    const outcome = outcomeOf('delete', await bus.request(modelDelete, { node }, { model }, { timeoutMs, signal }))
    const failure = outcome.is === 'refused' ? outcome.failure : null
    if (failure === null || failure.retry === 'never') await removals.settle(removal, failure)
    else await postpone(removal, { failure, isCounted: true }, deps)
    log.info('model deleted on a node', { node, model, outcome: failure?.code ?? 'deleted' })
  } catch (error) {
    if (signal.aborted) return
    const failed = requestErrorOf(error, 'model')
    if (failed === null) throw error
    const isCounted = failed.is === 'no_responders' || failed.is === 'refused'
    await postpone(removal, { failure: failed.failure, isCounted }, deps)
  }
}

/** `isCounted`: the attempt failed; otherwise its fate is unknown. */
async function postpone(
  removal: Removal,
  { failure, isCounted }: { failure: Failure; isCounted: boolean },
  { removals, retry, random }: RemovalsDeps,
): Promise<void> {
  const inMs = isCounted ? backoffMs(removal.attempts + 1, retry, random()) : againInMs
  await removals.putOff(removal, { failure, inMs, isCounted })
}
