// Connection pools to the gateways of workers.
import { Pool } from 'undici'

/** A worker on a local network accepts in milliseconds; a slower one is given up for another replica. */
const connectTimeoutMs = 2_000
/** Limits for machines that vanished. Generation may take long; clients give up earlier (OpenAI's after ten minutes). */
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
      const existing = pools.get(origin)
      if (existing !== undefined) return existing
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

/** Removes pools of workers that moved to another address. */
function forgetIdle(pools: Map<string, Pool>): void {
  for (const [origin, pool] of pools) {
    if (pool.stats.connected + pool.stats.size > 0) continue
    pools.delete(origin)
    void pool.destroy()
  }
}
