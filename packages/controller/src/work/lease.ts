// Leases of claimed work. A claim sets the holder and the end of the lease in the row; when a controller dies, its lease ends,
// and the next claim of any controller takes the row. Work that outlasts its lease renews it here while it runs.
import type { Clock } from '@muster/host'

/** A controller that has not recorded an outcome within this time is gone, and another one continues. */
export const claimLeaseMs = 8_000
const renewEveryMs = 2_000

export interface Lease {
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
