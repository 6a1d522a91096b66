// The engine for durable work: claims due items under a lease, runs them in bounded lanes, and sleeps until the next one is due
// or a change wakes it. It remembers nothing between rounds; stores, decisions and commands belong to the kinds (design.md).
import { type Clock, createLoop, type Log } from '@muster/host'

/** One kind of durable work. Several controllers may run the same kind: the store's leases keep them apart. */
export interface Work<Item> {
  /** Log message of a failed round. */
  readonly what: string
  /** Items that run at once. Each is a promise that waits for a worker, not a thread. */
  readonly lanes: number
  /** Items per claim; nothing is claimed while fewer lanes are free. */
  readonly batch: number
  /** Takes due items under a lease. */
  claim(limit: number): Promise<readonly Item[]>
  /** Advances one claimed item by a step, within its lease. */
  run(item: Item, signal: AbortSignal): Promise<void>
  /** Handles everything that is not due; called once per round. True when more may be due now. */
  tend?(signal: AbortSignal): Promise<boolean>
  /** Milliseconds until something is due; Infinity when only a change can make something due. */
  nextMs(): Promise<number>
}

/** While no lane is free nothing can be claimed; a lane that becomes free wakes the loop. */
const fullPauseMs = 250

export interface EngineDeps {
  /** The safety poll: a lost wake costs at most this long. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Log
}

export interface Engine {
  wake(): void
  /** Runs until aborted, then waits for the items in its lanes. Unfinished items are claimed again when their lease ends. */
  run(signal: AbortSignal): Promise<void>
}

export function createEngine<Item>(work: Work<Item>, { intervalMs, clock, log }: EngineDeps): Engine {
  const loop = createLoop({ what: work.what, clock, log })
  const lanes = createLanes({ size: work.lanes, onFree: loop.wake, log })

  const claimDue = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted && lanes.free() >= work.batch) {
      const items = await work.claim(work.batch)
      for (const item of items) lanes.add(work.run(item, signal))
      if (items.length < work.batch) return
    }
  }
  const round = async (signal: AbortSignal): Promise<number> => {
    await claimDue(signal)
    if ((await work.tend?.(signal)) === true) await claimDue(signal)
    const nextMs = await work.nextMs()
    const isFull = lanes.free() < work.batch
    return Math.min(intervalMs, isFull ? Math.max(nextMs, fullPauseMs) : nextMs)
  }
  return {
    wake: loop.wake,
    async run(signal) {
      await loop.run(round, signal)
      await lanes.drained()
    },
  }
}

export interface Lanes {
  free(): number
  /** Runs the item beside the others. A slow item delays no other; one that throws is logged and retried when it is due again. */
  add(work: Promise<void>): void
  drained(): Promise<void>
}

export function createLanes({ size, onFree, log }: { size: number; onFree: () => void; log: Log }): Lanes {
  const running = new Set<Promise<void>>()
  return {
    free: () => size - running.size,
    add(work) {
      const tracked = work
        .catch((error: unknown) => log.error('work failed unexpectedly; retrying', { error }))
        .finally(() => {
          running.delete(tracked)
          onFree()
        })
      running.add(tracked)
    },
    async drained() {
      await Promise.all(running)
    },
  }
}

// Leases of claimed work. A claim sets the holder and the end of the lease in the row; when a controller dies, its lease ends,
// and the next claim of any controller takes the row. Work that outlasts its lease renews it here while it runs.

/** A controller that has not recorded an outcome within this time is gone, and another one continues. */
export const claimLeaseMs = 8_000
const renewEveryMs = 2_000

interface Lease {
  /** False: the lease is lost, or there is nothing left to do. */
  readonly renew: () => Promise<boolean>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Null: the lease was lost meanwhile, or this controller stops. */
export async function withLease<T>({ renew, clock, signal }: Lease, work: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
  const lost = new AbortController()
  const done = new AbortController()
  const keep = async (): Promise<void> => {
    for (;;) {
      await clock.sleep(renewEveryMs, AbortSignal.any([done.signal, signal]))
      if (!(await renew())) return lost.abort()
    }
  }
  // While the database does not answer the lease ends; the outcome is then recorded by its next holder.
  keep().catch(() => undefined)
  try {
    return await work(AbortSignal.any([lost.signal, signal]))
  } catch (error) {
    if (lost.signal.aborted || signal.aborted) return null
    throw error
  } finally {
    done.abort()
  }
}
