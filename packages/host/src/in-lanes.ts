// Bounded parallelism: at most `atOnce` items are worked on at a time. The first failure aborts the other lanes and is
// thrown once all of them have stopped.
import { FleetError } from '@muster/protocol'

export interface Lanes {
  readonly atOnce: number
  readonly signal?: AbortSignal
}

/** Returns the results in the order of the items. */
export async function inLanes<Item, Result>(
  items: readonly Item[],
  { atOnce, signal: outer }: Lanes,
  work: (item: Item, at: { readonly index: number; readonly signal: AbortSignal }) => Promise<Result>,
): Promise<Result[]> {
  const failed = new AbortController()
  const signal = outer === undefined ? failed.signal : AbortSignal.any([outer, failed.signal])
  const causes: unknown[] = []
  const results: Result[] = []
  const left = items.entries()
  const lane = async (): Promise<void> => {
    try {
      for (const [index, item] of left) {
        if (signal.aborted) return
        results[index] = await work(item, { index, signal })
      }
    } catch (error) {
      causes.push(error)
      failed.abort(laneFailed)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane))
  outer?.throwIfAborted()
  if (causes.length > 0) throw causes[0]
  return results
}

const laneFailed = new FleetError({ code: 'cancelled', retry: 'backoff', message: 'another part of the same work failed' })
