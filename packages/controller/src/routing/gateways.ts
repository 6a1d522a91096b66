// Connections to the gateways of workers, kept open between requests.
import { Pool } from 'undici'

/** A worker on a local network answers in milliseconds; whoever does not is tried again on another. */
const connectTimeoutMs = 2_000
/**
 * A whole answer may take as long as it takes to generate; these only end what nobody will ever answer, when a machine
 * vanished without a word. Clients give up earlier (OpenAI's after ten minutes).
 */
const headersTimeoutMs = 30 * 60_000
const bodyTimeoutMs = 15 * 60_000
const maxPools = 10_000

export interface Gateways {
  at(origin: string): Pool
  close(): Promise<void>
}

export function createGateways(): Gateways {
  const pools = new Map<string, Pool>()
  return {
    at(origin) {
      const known = pools.get(origin)
      if (known !== undefined) return known
      if (pools.size >= maxPools) forgetIdle(pools)
      const pool = new Pool(origin, {
        connectTimeout: connectTimeoutMs,
        headersTimeout: headersTimeoutMs,
        bodyTimeout: bodyTimeoutMs,
        allowH2: false,
      })
      pools.set(origin, pool)
      return pool
    },
    async close() {
      await Promise.all([...pools.values()].map((pool) => pool.destroy()))
      pools.clear()
    },
  }
}

/** Workers that came back at another address. */
function forgetIdle(pools: Map<string, Pool>): void {
  for (const [origin, pool] of pools) {
    if (pool.stats.connected + pool.stats.size > 0) continue
    pools.delete(origin)
    void pool.destroy()
  }
}
