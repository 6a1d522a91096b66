// Principals: found by an API key or a browser's session cookie, and watched for revocation. Access rules: may.pure.ts.
import { type Clock, createLoop, type Log, sha256Hex } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'
import { keyOfSession } from './secrets.ts'

export type Principal = Readonly<
  | { kind: 'key'; id: string; name: string; scope: Scope }
  /** `session` is the hash of the cookie, `key` the ID of the key that created the session, if any. */
  | { kind: 'browser'; session: string; key: string | null; scope: 'admin' }
  | { kind: 'anonymous' }
>

/** A revoked key stays valid for at most this long on every controller. */
const cachedForMs = 1_000
/** While the database is unavailable, cached principals stay valid, so that models are still served (D4). */
const trustedForMs = 600_000
/** Wait for a database that hangs before a cached principal is used. */
const patienceMs = 250
const maxCached = 10_000

export type PrincipalFinder = ReturnType<typeof createPrincipalFinder>

export function createPrincipalFinder(deps: { access: AccessStore; clock: Clock }) {
  const { access, clock } = deps
  const { cached, forget } = createCache(clock)
  const used = new Set<string>()

  return {
    /** Null for an unknown or revoked key. */
    async byKey(secret: string): Promise<Principal | null> {
      const hash = sha256Hex(secret)
      const principal = await cached(`key ${hash}`, async () => {
        const key = await access.findKey(hash)
        return key === null ? null : { kind: 'key', ...key }
      })
      if (principal?.kind === 'key') used.add(principal.id)
      return principal
    },

    async byCookie(secret: string): Promise<Principal | null> {
      const hash = sha256Hex(secret)
      const key = keyOfSession(secret)
      return await cached(`cookie ${hash}`, async () =>
        (await access.hasSession(hash, key)) ? { kind: 'browser', session: hash, key, scope: 'admin' } : null,
      )
    },

    forgetCookie(secret: string): void {
      forget(`cookie ${sha256Hex(secret)}`)
    },

    /** Keys used since the last call, for `last_used_at`, which is written periodically. */
    takeUsed(): string[] {
      const ids = [...used]
      used.clear()
      return ids
    },

    /** Keeps them for the next write after a failed one. */
    putBackUsed(ids: readonly string[]): void {
      for (const id of ids) used.add(id)
    },
  }
}

function createCache(clock: Clock) {
  const cache = new Map<string, { principal: Principal; foundAt: number }>()
  const pending = new Map<string, Promise<Principal | null>>()

  async function lookUp(name: string, find: () => Promise<Principal | null>): Promise<Principal | null> {
    try {
      const principal = await find()
      cache.delete(name)
      if (principal !== null) {
        if (cache.size >= maxCached) cache.clear()
        cache.set(name, { principal, foundAt: clock.monotonic() })
      }
      return principal
    } finally {
      pending.delete(name)
    }
  }

  async function cached(name: string, find: () => Promise<Principal | null>): Promise<Principal | null> {
    const hit = cache.get(name)
    const age = clock.monotonic() - (hit?.foundAt ?? -Infinity)
    if (hit !== undefined && age < cachedForMs) return hit.principal
    const looking = pending.get(name) ?? lookUp(name, find)
    pending.set(name, looking)
    if (hit === undefined || age > trustedForMs) return await looking
    const done = new AbortController()
    try {
      return await Promise.race([looking.catch(() => hit.principal), clock.sleep(patienceMs, done.signal).then(() => hit.principal)])
    } finally {
      done.abort()
    }
  }

  return { cached, forget: (name: string): void => void cache.delete(name) }
}

/** The principal's name in operations and approvals. */

export const principalName = (principal: Principal): string => (principal.kind === 'key' ? `key ${principal.name}` : principal.kind)

/** A revocation takes effect on every controller within two seconds, including the time of the query. */
const checkEveryMs = 1_000

export type PrincipalWatch = ReturnType<typeof createPrincipalWatch>

/** Ends open streams of principals that were revoked, logged out or expired, with one query per second for all of them. */
export function createPrincipalWatch({ access, clock, log }: { access: AccessStore; clock: Clock; log: Log }) {
  const streams = { keys: new Map<string, Set<() => void>>(), sessions: new Map<string, Set<() => void>>() }
  const loop = createLoop({ what: 'cannot check principals of open streams; retrying', clock, log, retryMs: checkEveryMs })

  async function endRevoked(): Promise<void> {
    const ids = { keys: [...streams.keys.keys()], sessions: [...streams.sessions.keys()] }
    if (ids.keys.length + ids.sessions.length === 0) return
    const valid = await access.stillValid(ids)
    for (const kind of ['keys', 'sessions'] as const) {
      const revoked = ids[kind].filter((id) => !valid[kind].has(id))
      for (const end of revoked.flatMap((id) => [...(streams[kind].get(id) ?? [])])) end()
    }
  }

  return {
    /** Calls `end` when the principal is no longer valid. Returns a function that stops the watch. */
    hold(principal: Principal, end: () => void): () => void {
      if (principal.kind === 'anonymous') return () => undefined
      if (principal.kind === 'key') return holdIn(streams.keys, principal.id, end)
      const ofSession = holdIn(streams.sessions, principal.session, end)
      const ofKey = principal.key === null ? null : holdIn(streams.keys, principal.key, end)
      return () => {
        ofSession()
        ofKey?.()
      }
    },

    /** Runs until aborted. While the database is unavailable no stream is ended. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        await endRevoked()
        return checkEveryMs
      }, signal),
  }
}

function holdIn(all: Map<string, Set<() => void>>, id: string, end: () => void): () => void {
  // Wrapped, because one function may be registered twice.
  const own = (): void => end()
  const ends = all.get(id) ?? new Set()
  all.set(id, ends.add(own))
  return () => {
    ends.delete(own)
    if (ends.size === 0 && all.get(id) === ends) all.delete(id)
  }
}
