// One thing from whoever has it. What breaks off is continued where it ended, at the next one or, when all had their turn,
// at the first again; whoever sends something else is not asked a second time.
import type { Clock } from '@muster/host'
import { failureOf } from '@muster/protocol'
import type { BlobSource } from './fetch-blob.ts'

export type Mirror = (offset: number) => Promise<BlobSource>

export interface MirroredFetch<T> {
  /** Asked in this order. */
  readonly mirrors: readonly Mirror[]
  /** How much of it is there, verified or not. */
  readonly incomingSize: () => Promise<number>
  readonly fetch: (open: Mirror) => Promise<T>
  readonly clock: Clock
  readonly signal: AbortSignal
}

/** Less than this in a whole round is no progress: whoever wants more patience keeps a queue. */
const leastGainBytes = 10_000
const pauseMs = 500

export async function tryMirrors<T>({ mirrors, incomingSize, fetch, clock, signal }: MirroredFetch<T>): Promise<T> {
  let asked = [...mirrors]
  for (;;) {
    const before = await incomingSize()
    let first: unknown = null
    for (const open of asked) {
      try {
        return await fetch(open)
      } catch (error) {
        signal.throwIfAborted()
        const { code } = failureOf(error)
        if (!['unavailable', 'integrity', 'not_found', 'invalid'].includes(code)) throw error
        if (code !== 'unavailable') asked = asked.filter((each) => each !== open)
        first ??= error
      }
    }
    const gained = (await incomingSize()) - before
    if (asked.length === 0 || gained < leastGainBytes) throw first
    await clock.sleep(pauseMs, signal)
  }
}
