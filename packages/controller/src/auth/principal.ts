// Principals: found by an API key or a browser's session cookie, and watched for revocation. Access rules: may.pure.ts.
import { type Clock, createLoop, type Log, sha256Hex } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'
import { keyOfSession } from './secrets.ts'

export type Principal = Readonly<
  | { kind: 'key'; id: string; name: string; scope: Scope }
  /**
   * `session` is the hash of the cookie, `key` the ID of the key that created the session, if any. The session expires at
   * `endsAt` on the monotonic clock.
   */
  | { kind: 'browser'; session: string; key: string | null; scope: 'admin'; endsAt: number }
  | { kind: 'anonymous' }
>

type KnownPrincipal = Exclude<Principal, { kind: 'anonymous' }>
/** IDs of keys and hashes of sessions. */
type Credentials = Readonly<Record<'keys' | 'sessions', ReadonlySet<string>>>

/** A revoked key stays valid for at most this long on every controller. */
const cachedForMs = 1_000
/**
 * While the database is unavailable, a principal stays valid for this long after its last lookup, so that models are still
 * served (D4). Revoked ones do not: the watch below takes them out of the cache within two seconds, used or not.
 */
const trustedForMs = 600_000
/** Wait for a database that hangs before a cached principal is used. */
const patienceMs = 250
const maxCached = 10_000

export type PrincipalFinder = ReturnType<typeof createPrincipalFinder>

export function createPrincipalFinder(deps: { access: AccessStore; clock: Clock }) {
  const { access, clock } = deps
  const { cached, listCached, revoke } = createCache(clock)
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
    /** Null for an unknown, expired or revoked session. */
    async byCookie(secret: string): Promise<Principal | null> {
      const hash = sha256Hex(secret)
      const key = keyOfSession(secret)
      return await cached(`cookie ${hash}`, async () => {
        const askedAt = clock.monotonic()
        const session = await access.findSession(hash, key)
        return session === null ? null : { kind: 'browser', session: hash, key, scope: 'admin', endsAt: askedAt + session.leftMs }
      })
    },
    forgetCookie(secret: string): void {
      const hash = sha256Hex(secret)
      revoke((principal) => principal.kind === 'browser' && principal.session === hash)
    },
    listCached,
    revoke,
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
  /** Null: revoked. It is refused while the database is unavailable, too. */
  const cache = new Map<string, { principal: KnownPrincipal | null; foundAt: number }>()
  const pending = new Map<string, Promise<KnownPrincipal | null>>()

  async function lookUp(name: string, find: () => Promise<KnownPrincipal | null>): Promise<KnownPrincipal | null> {
    try {
      const principal = await find()
      const isKnown = cache.delete(name)
      // Unknown secrets are not kept: anybody could fill the cache with them.
      if (principal !== null || isKnown) {
        if (cache.size >= maxCached) cache.clear()
        cache.set(name, { principal, foundAt: clock.monotonic() })
      }
      return principal
    } finally {
      pending.delete(name)
    }
  }

  /** An expired session is invalid, also when the database cannot confirm it. */
  const unlessExpired = (principal: KnownPrincipal | null): KnownPrincipal | null =>
    principal?.kind === 'browser' && principal.endsAt <= clock.monotonic() ? null : principal

  async function cached(name: string, find: () => Promise<KnownPrincipal | null>): Promise<KnownPrincipal | null> {
    const hit = cache.get(name)
    const age = clock.monotonic() - (hit?.foundAt ?? -Infinity)
    if (hit !== undefined && age < cachedForMs) return unlessExpired(hit.principal)
    const looking = pending.get(name) ?? lookUp(name, find)
    pending.set(name, looking)
    if (hit === undefined || age > trustedForMs) return await looking
    const fallback = (): KnownPrincipal | null => unlessExpired((cache.get(name) ?? hit).principal)
    const done = new AbortController()
    try {
      return await Promise.race([looking.catch(fallback), clock.sleep(patienceMs, done.signal).then(fallback)])
    } finally {
      done.abort()
    }
  }

  return {
    cached,
    /** The cached principals. Forgets entries that are too old to be trusted. */
    listCached(): KnownPrincipal[] {
      const oldest = clock.monotonic() - trustedForMs
      for (const [name, { foundAt }] of cache) if (foundAt < oldest) cache.delete(name)
      return [...cache.values()].flatMap(({ principal }) => principal ?? [])
    },
    revoke(isRevoked: (principal: KnownPrincipal) => boolean): void {
      for (const [name, { principal, foundAt }] of cache)
        if (principal !== null && isRevoked(principal)) cache.set(name, { principal: null, foundAt })
    },
  }
}

/** The principal's name in operations and approvals. */
export const principalName = (principal: Principal): string => (principal.kind === 'key' ? `key ${principal.name}` : principal.kind)

/** A revocation takes effect on every controller within two seconds, including the time of the query. */
const checkEveryMs = 1_000

export type PrincipalWatch = ReturnType<typeof createPrincipalWatch>

interface WatchDeps {
  readonly access: AccessStore
  readonly principals: PrincipalFinder
  readonly clock: Clock
  readonly log: Log
}

/**
 * Ends open streams of principals that were revoked, logged out or expired, and takes these principals out of the cache, with
 * one query per second for all of them.
 */
export function createPrincipalWatch({ access, principals, clock, log }: WatchDeps) {
  const streams = new Set<{ readonly principal: KnownPrincipal; readonly end: () => void }>()
  const loop = createLoop({ what: 'cannot check principals of open streams; retrying', clock, log, retryMs: checkEveryMs })
  let checkedAt = clock.monotonic()

  const endStreams = (isOver: (principal: KnownPrincipal) => boolean): void => {
    for (const { end } of [...streams].filter(({ principal }) => isOver(principal))) end()
  }

  async function endRevoked(): Promise<void> {
    const now = clock.monotonic()
    // Needs no database: sessions end on time, and nothing is trusted for longer than a request would be.
    endStreams((principal) => (principal.kind === 'browser' && principal.endsAt <= now) || now - checkedAt > trustedForMs)
    const watched = credentialsOf([...principals.listCached(), ...[...streams].map(({ principal }) => principal)])
    if (watched.keys.size + watched.sessions.size > 0) {
      const valid = await access.stillValid({ keys: [...watched.keys], sessions: [...watched.sessions] })
      const isRevoked = (principal: KnownPrincipal): boolean => {
        const { keys, sessions } = credentialsOf([principal])
        // Credentials that were added during the query are checked in the next round.
        const isGone = (kind: keyof Credentials, id: string): boolean => watched[kind].has(id) && !valid[kind].has(id)
        return [...keys].some((id) => isGone('keys', id)) || [...sessions].some((id) => isGone('sessions', id))
      }
      principals.revoke(isRevoked)
      endStreams(isRevoked)
    }
    checkedAt = clock.monotonic()
  }

  return {
    /** Calls `end` when the principal is no longer valid. Returns a function that stops the watch. */
    hold(principal: Principal, end: () => void): () => void {
      if (principal.kind === 'anonymous') return () => undefined
      const stream = { principal, end }
      streams.add(stream)
      return () => void streams.delete(stream)
    },
    /** Runs until aborted. While the database is unavailable only sessions that expire are ended, and after ten minutes all. */
    run: (signal: AbortSignal): Promise<void> =>
      loop.run(async () => {
        await endRevoked()
        return checkEveryMs
      }, signal),
  }
}

/** A session that was created with a key needs both. */
function credentialsOf(principals: readonly KnownPrincipal[]): Credentials {
  const keys = principals.map((principal) => (principal.kind === 'key' ? principal.id : principal.key))
  const sessions = principals.flatMap((principal) => (principal.kind === 'browser' ? [principal.session] : []))
  return { keys: new Set(keys.filter((id) => id !== null)), sessions: new Set(sessions) }
}
