// Prefetches the models that workers were started with --prefetch-models for: when a node is approved, when such a model is created,
// and when its revision changes. It remembers nothing: a stored revision per node and model says what was submitted, and the
// transaction that stores it submits the operation. Any controller may run it.
import { type Clock, createLoop, type Log, newId } from '@muster/host'
import { OperationId } from '@muster/protocol'
import type { NodeModelStore } from '../store/node-models.ts'

export interface PrefetchLoopDeps {
  readonly store: Pick<NodeModelStore, 'wantedPrefetches' | 'prefetchOnce'>
  /** An operation was submitted. */
  readonly onSubmitted: () => void
  /** The safety poll. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

const batch = 64
/** Every change of anything wakes the loop, so that it looks at most this often. */
const breathMs = 500

export function createPrefetchLoop({ store, onSubmitted, intervalMs, clock, log }: PrefetchLoopDeps) {
  const loop = createLoop({ what: 'cannot prefetch models for workers; retrying', breathMs, clock, log })
  return {
    wake: loop.wake,
    /** Runs until aborted. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        const wanted = await store.wantedPrefetches(batch)
        for (const { model, nodeId, nodeName, revision } of wanted) {
          if (signal.aborted) return intervalMs
          const requestedBy = `worker ${nodeName} (--prefetch-models)`.slice(0, 255)
          const id = OperationId.parse(newId('op'))
          if (!(await store.prefetchOnce({ id, model, nodeId, nodeName, revision, requestedBy }))) continue
          log.info('prefetch submitted for a worker', { node: nodeId, model, operation: id })
          onSubmitted()
        }
        return wanted.length < batch ? intervalMs : 0
      }, signal),
  }
}
