// Connections to one process whose identity is verified: another program may take its port once it is gone (F10, I14). The
// process reports its identity before the first request, and again when no connection is left from the last time: as long as
// one stays open, the process has not ended. A process that reports no identity is trusted by the worker's process table.
import { type Dispatcher, Pool } from 'undici'
import { z } from 'zod'
import { parseJson, errorMessage } from '@muster/host'
import { FleetError } from '@muster/protocol'
import { readAll } from '@muster/source'
import type { BackendAddress, ReplicaSpec } from './driver.ts'

const connectMs = 5_000

/** Without response timeouts: a generation may take hours. */
export function openPool(address: BackendAddress): Pool {
  const origin = address.kind === 'tcp' ? `http://${address.host}:${address.port}` : 'http://localhost'
  const connect = address.kind === 'tcp' ? { timeout: connectMs } : { timeout: connectMs, socketPath: address.path }
  return new Pool(origin, { connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect })
}

export function createVerifiedPool(spec: ReplicaSpec, address: BackendAddress) {
  const pool = openPool(address)
  let open = 0
  let isVerified = false
  let namesItself: boolean | null = null
  let verifying: Promise<void> | null = null
  pool.on('connect', () => {
    open += 1
  })
  pool.on('disconnect', (_origin, _targets, error) => {
    open -= 1
    // A connection closed on this side proves nothing; one that the process closed may mean its end.
    if (open === 0 || error.code !== 'UND_ERR_INFO') isVerified = false
  })

  async function check(): Promise<void> {
    try {
      const identity = identityIn(await readHealth(pool, spec.description?.health_path ?? '/health'), spec)
      const isOther = typeof identity === 'object' || (identity === 'unnamed' && namesItself === true)
      if (isOther) throw new Error(`another process answers there${typeof identity === 'object' ? `, for ${identity.other}` : ''}`)
      namesItself = identity === 'ours'
      isVerified = open > 0
    } catch (error) {
      throw unreachableProcess(spec, error)
    } finally {
      verifying = null
    }
  }

  return {
    pool,
    /** Null: verified already. Rejects with FleetError `unavailable` when no process, or another one, answers. */
    verify: (): Promise<void> | null => (isVerified || namesItself === false ? null : (verifying ??= check())),
    close: () => pool.destroy(),
  }
}

export function unreachableProcess({ replicaId }: Pick<ReplicaSpec, 'replicaId'>, error: unknown): FleetError {
  const reason = errorMessage(error)
  return new FleetError(
    { code: 'unavailable', retry: 'backoff', message: `the process of replica ${replicaId} gave no answer: ${reason}`.slice(0, 2000) },
    { cause: error },
  )
}

/** `model` and `replica_id` are optional; a value that is present must match. */
const HealthBody = z.object({ model: z.string().optional(), replica_id: z.string().nullish() })

export type Health = Readonly<{ status: number; text: string }>
type Identity = 'ours' | 'unnamed' | Readonly<{ other: string }>

const largestAnswer = 64 * 1024

/** Throws when there is no HTTP response. */
export async function readHealth(dispatcher: Dispatcher, path: string, signal?: AbortSignal): Promise<Health> {
  const { statusCode, body } = await dispatcher.request({ path, method: 'GET', ...(signal === undefined ? {} : { signal }) })
  const bytes = await readAll(body, { maxBytes: largestAnswer, what: 'the health response' })
  return { status: statusCode, text: bytes.toString('utf8') }
}

/** F11: a process that answers for another model is not this replica, even if it is healthy. */
export function identityIn({ text }: Health, { model, modelPath, replicaId }: ReplicaSpec): Identity {
  const body = HealthBody.safeParse(parseJson(text))
  if (!body.success) return 'unnamed'
  const { model: named, replica_id: replica } = body.data
  if (named !== undefined && named !== model && named !== modelPath) return { other: `the model ${quote(named)}` }
  if (typeof replica === 'string' && replica !== replicaId) return { other: `the replica ${quote(replica)}` }
  return named === undefined && typeof replica !== 'string' ? 'unnamed' : 'ours'
}

const quote = (text: string): string => JSON.stringify(text.slice(0, 200))
