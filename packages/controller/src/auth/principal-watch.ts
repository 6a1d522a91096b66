// Ends what is still open for somebody who may no longer be here: a revoked key, a browser that logged out or
// whose session ran out. One question a second for all of them, whatever their number.
import { createFailureStreak, type Clock, type Log } from '@muster/host'
import type { AccessStore } from '../store/access.ts'
import type { Principal } from './principal.ts'

/** So a revocation is seen on every controller within two seconds, with the time that the question takes. */
const askEveryMs = 1_000

export type PrincipalWatch = ReturnType<typeof createPrincipalWatch>

export function createPrincipalWatch({ access, clock, log }: { access: AccessStore; clock: Clock; log: Log }) {
  const held = { keys: new Map<string, Set<() => void>>(), sessions: new Map<string, Set<() => void>>() }
  const trouble = createFailureStreak({ what: 'who may still listen can not be read', clock, log })

  async function endRevoked(): Promise<void> {
    const asked = { keys: [...held.keys.keys()], sessions: [...held.sessions.keys()] }
    if (asked.keys.length + asked.sessions.length === 0) return
    const valid = await access.stillValid(asked)
    for (const kind of ['keys', 'sessions'] as const) {
      const gone = asked[kind].filter((id) => !valid[kind].has(id))
      for (const end of gone.flatMap((id) => [...(held[kind].get(id) ?? [])])) end()
    }
  }

  return {
    /** `end` is called when the principal is no longer valid; what is returned lets go of it. */
    hold(principal: Principal, end: () => void): () => void {
      if (principal.kind === 'nobody') return () => undefined
      if (principal.kind === 'key') return holdIn(held.keys, principal.id, end)
      const ofSession = holdIn(held.sessions, principal.session, end)
      const ofKey = principal.key === null ? null : holdIn(held.keys, principal.key, end)
      return () => {
        ofSession()
        ofKey?.()
      }
    },

    /** Until aborted. While the database is away nobody is put out: there is nothing to be heard either. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        await clock.sleep(askEveryMs, signal).catch(() => undefined)
        await endRevoked().then(
          () => trouble.recovered(),
          (error: unknown) => trouble.failed({ error }),
        )
      }
    },
  }
}

function holdIn(all: Map<string, Set<() => void>>, id: string, end: () => void): () => void {
  // Wrapped: one function may be held twice.
  const own = (): void => end()
  const ends = all.get(id) ?? new Set()
  all.set(id, ends.add(own))
  return () => {
    ends.delete(own)
    if (ends.size === 0 && all.get(id) === ends) all.delete(id)
  }
}
