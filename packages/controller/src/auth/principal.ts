// Who calls: found out from a key or a browser's cookie. What they may do: may.ts.
import { sha256Hex, type Clock } from '@muster/host'
import type { Scope } from '@muster/protocol'
import type { AccessStore } from '../store/access.ts'

export type Principal = Readonly<
  | { kind: 'key'; id: string; name: string; scope: Scope }
  /** `session` is the hash of its cookie. */
  | { kind: 'browser'; session: string; scope: 'admin' }
  | { kind: 'nobody' }
>

/** A revoked key works this much longer at most, on every controller. */
const cachedForMs = 1_000
const maxCached = 10_000

export type PrincipalFinder = ReturnType<typeof createPrincipalFinder>

export function createPrincipalFinder(deps: { access: AccessStore; clock: Clock }) {
  const { access, clock } = deps
  const cache = new Map<string, { principal: Principal; until: number }>()
  const used = new Set<string>()

  async function cached(name: string, find: () => Promise<Principal | null>): Promise<Principal | null> {
    const hit = cache.get(name)
    if (hit !== undefined && hit.until > clock.monotonic()) return hit.principal
    cache.delete(name)
    const principal = await find()
    if (principal !== null) {
      if (cache.size >= maxCached) cache.clear()
      cache.set(name, { principal, until: clock.monotonic() + cachedForMs })
    }
    return principal
  }

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
      return await cached(`cookie ${hash}`, async () =>
        (await access.hasSession(hash)) ? { kind: 'browser', session: hash, scope: 'admin' } : null,
      )
    },

    forgetCookie(secret: string): void {
      cache.delete(`cookie ${sha256Hex(secret)}`)
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
