// Who calls: found out from a key or a browser's cookie. What they may do: may.ts.
import { sha256Hex, type Clock } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'
import { keyOfSession } from './session-secret.ts'

export type Principal = Readonly<
  | { kind: 'key'; id: string; name: string; scope: Scope }
  /** `session` is the hash of its cookie, `key` the id of the key that it was made with, if it was. */
  | { kind: 'browser'; session: string; key: string | null; scope: 'admin' }
  | { kind: 'nobody' }
>

/** A revoked key works this much longer at most, on every controller. */
const cachedForMs = 1_000
/**
 * While nobody can be asked, who was known stays known: models are served on when the database is away (D4), and whoever
 * could revoke a key needs it too.
 */
const trustedForMs = 600_000
/** For a database that does not say no either. */
const patienceMs = 250
const maxCached = 10_000

export type PrincipalFinder = ReturnType<typeof createPrincipalFinder>

export function createPrincipalFinder(deps: { access: AccessStore; clock: Clock }) {
  const { access, clock } = deps
  const { cached, forget } = createCache(clock)
  const used = new Set<string>()

  return {
    /** Null for a key that is not known (or no longer). */
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

    /** Keys used since the last call, for `last_used_at`: written now and then, not with each request. */
    takeUsed(): string[] {
      const ids = [...used]
      used.clear()
      return ids
    },

    /** They could not be written: next time. */
    putBackUsed(ids: readonly string[]): void {
      for (const id of ids) used.add(id)
    },
  }
}

function createCache(clock: Clock) {
  const cache = new Map<string, { principal: Principal; knownAt: number }>()
  const pending = new Map<string, Promise<Principal | null>>()

  async function look(name: string, find: () => Promise<Principal | null>): Promise<Principal | null> {
    try {
      const principal = await find()
      cache.delete(name)
      if (principal !== null) {
        if (cache.size >= maxCached) cache.clear()
        cache.set(name, { principal, knownAt: clock.monotonic() })
      }
      return principal
    } finally {
      pending.delete(name)
    }
  }

  async function cached(name: string, find: () => Promise<Principal | null>): Promise<Principal | null> {
    const hit = cache.get(name)
    const age = clock.monotonic() - (hit?.knownAt ?? -Infinity)
    if (hit !== undefined && age < cachedForMs) return hit.principal
    const looking = pending.get(name) ?? look(name, find)
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
