// Connections to one process, and whether it is still the one that they were opened to. A port may be taken by another
// program once its process is gone (F10, I14), and then connecting proves nothing. So the process is asked who it is
// before the first request, and again whenever no connection is left that was there when it last said so: as long as one
// stays open, the process behind it has not ended. A process that never says who it is goes by the worker's process table.
import { FleetError } from '@muster/protocol'
import { Pool } from 'undici'
import type { BackendAddress, ReplicaSpec } from './driver.ts'
import { askHealth, identityIn } from './health.ts'

const connectMs = 5_000

export interface SurePool {
  readonly pool: Pool
  /** Null: it is sure now. Rejects with FleetError `unavailable` when nobody, or somebody else, answers there. */
  becomeSure(): Promise<void> | null
  close(): Promise<void>
}

/** Generations take as long as they take: nothing here ends one for being slow. */
export function openPool(address: BackendAddress): Pool {
  const origin = address.kind === 'tcp' ? `http://${address.host}:${address.port}` : 'http://localhost'
  const connect = address.kind === 'tcp' ? { timeout: connectMs } : { timeout: connectMs, socketPath: address.path }
  return new Pool(origin, { connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect })
}

export function createSurePool(spec: ReplicaSpec, address: BackendAddress): SurePool {
  const pool = openPool(address)
  let open = 0
  let isSure = false
  let namesItself: boolean | null = null
  let asking: Promise<void> | null = null
  pool.on('connect', () => {
    open += 1
  })
  pool.on('disconnect', (_origin, _targets, error) => {
    open -= 1
    // Closed from here (idle, given up) says nothing of the process; closed from there may be its end.
    if (open === 0 || error.code !== 'UND_ERR_INFO') isSure = false
  })

  async function ask(): Promise<void> {
    try {
      const identity = identityIn(await askHealth(pool, spec.description?.health_path ?? '/health'), spec)
      const isOther = typeof identity === 'object' || (identity === 'unnamed' && namesItself === true)
      if (isOther) throw new Error(`something else answers there${typeof identity === 'object' ? `, for ${identity.other}` : ''}`)
      namesItself = identity === 'ours'
      isSure = open > 0
    } catch (error) {
      throw unreachableProcess(spec, error)
    } finally {
      asking = null
    }
  }

  return {
    pool,
    becomeSure: () => (isSure || namesItself === false ? null : (asking ??= ask())),
    close: () => pool.destroy(),
  }
}

export function unreachableProcess({ replicaId }: Pick<ReplicaSpec, 'replicaId'>, error: unknown): FleetError {
  const reason = error instanceof Error ? error.message : String(error)
  return new FleetError(
    { code: 'unavailable', retry: 'backoff', message: `the process of replica ${replicaId} gave no answer: ${reason}`.slice(0, 2000) },
    { cause: error },
  )
}
