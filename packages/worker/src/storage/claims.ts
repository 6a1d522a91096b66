// Work on blobs and trees that must not be disturbed: one at a time on the same digest, and nothing of it collected.
import type { Digest } from '@muster/protocol'
import type { Holds } from './holds.ts'
import { createKeyedLocks } from './turns.ts'
import { withSigns } from './while-waiting.ts'

export interface Claims {
  /** Waits until nobody else works on the first digest; all of them are held meanwhile. */
  claim<Result>(digests: readonly [Digest, ...Digest[]], signal: AbortSignal, work: () => Promise<Result>): Promise<Result>
}

export function createClaims(holds: Holds): Claims {
  const locks = createKeyedLocks()
  return {
    claim: async (digests, signal, work) => {
      const held = holds.hold(digests)
      try {
        return await locks.run(digests[0], signal, work)
      } finally {
        held[Symbol.dispose]()
      }
    },
  }
}

type Claim = <T>(
  digests: readonly [Digest, ...Digest[]],
  options: { readonly signal: AbortSignal; readonly onSign?: () => void },
  work: () => Promise<T>,
) => Promise<T>

/** Whoever waits for somebody else's work on the same is alive. */
export function claimWithSigns(claims: Claims): Claim {
  return (digests, { signal, onSign }, work) =>
    withSigns(onSign, (come) =>
      claims.claim(digests, signal, () => {
        come()
        return work()
      }),
    )
}
