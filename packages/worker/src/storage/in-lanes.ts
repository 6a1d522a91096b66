// Several fetches at a time that only make sense together: what is given up at one is not gone on with at the others, and
// what came of them stays. The first failure is told, once all have stopped.
import { FleetError } from '@muster/protocol'

export interface Lanes {
  readonly atOnce: number
  readonly signal: AbortSignal
}

/** The results are in the order of the items. */
export async function inLanes<Item, Result>(
  items: readonly Item[],
  { atOnce, signal: outer }: Lanes,
  work: (item: Item, at: { readonly index: number; readonly signal: AbortSignal }) => Promise<Result>,
): Promise<Result[]> {
  const failed = new AbortController()
  const signal = AbortSignal.any([outer, failed.signal])
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
      failed.abort(givenUp)
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, lane))
  outer.throwIfAborted()
  if (causes.length > 0) throw causes[0]
  return results
}

const givenUp = new FleetError({ code: 'cancelled', retry: 'backoff', message: 'another part of the same could not be fetched' })
