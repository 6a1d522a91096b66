// The driver for backends that speak the OpenAI API. Requests and responses are forwarded unparsed, to a process whose identity is
// verified.
import { parseJson, type Clock } from '@muster/host'
import { backoffMs, FleetError } from '@muster/protocol'
import { readAll } from '@muster/source'
import { type Dispatcher, Pool } from 'undici'
import { z } from 'zod'
import {
  addressKindOf,
  fillCommand,
  modelEnv,
  showAddress,
  unreachableProcess,
  type BackendAddress,
  type BackendConnection,
  type Driver,
  type ReadinessWatch,
  type ReplicaSpec,
} from './driver.ts'
import { forward } from './forward.ts'

const pollBackoff = { baseMs: 25, maxMs: 500, jitter: 0 }
/** A process that computes while it loads may not answer in time; it is polled again. */
const answerMs = 10_000

export function createOpenAiHttpDriver({ clock }: { clock: Clock }): Driver {
  return {
    name: 'openai-http',
    addressKind: (spec) => addressKindOf(commandOf(spec)),
    launch: (spec, address) => ({ argv: fillCommand(commandOf(spec), spec, address), env: modelEnv(spec) }),
    waitUntilReady: (spec, address, watch) => waitUntilReady(clock, { spec, address, watch }),
    recognizes: async (spec, address, signal) => {
      await using probe = disposable(openPool(address))
      const health = await readHealth(probe.pool, healthPath(spec), signal).catch(() => null)
      return health?.status === 200 && typeof identityIn(health, spec) !== 'object'
    },
    connect: (spec, address) => createConnection(spec, address),
  }
}

const commandOf = ({ description }: ReplicaSpec): readonly string[] => description?.command ?? []
const healthPath = ({ description }: ReplicaSpec): string => description?.health_path ?? '/health'

async function waitUntilReady(
  clock: Clock,
  { spec, address, watch }: { spec: ReplicaSpec; address: BackendAddress; watch: ReadinessWatch },
) {
  await using probe = disposable(openPool(address))
  const what = `GET ${healthPath(spec)}`
  let last = 'it gave no answer'
  for (let attempt = 1; ; attempt++) {
    watch.onPoll?.({ what, times: attempt, last })
    const health = await pollHealth(probe.pool, healthPath(spec), watch.signal)
    if (watch.signal.aborted) throw notReady(spec, last, watch.signal.reason)
    if (typeof health === 'object') {
      const identity = identityIn(health, spec)
      if (typeof identity === 'object') throw anotherOne(spec, { address, other: identity.other })
      if (health.status === 200) return
    }
    const now = typeof health === 'object' ? `it answered ${health.status} ${health.text.trim().slice(0, 500)}`.trimEnd() : health
    // The same response again proves only that the process runs, which is known already.
    if (typeof health === 'object' && now !== last) watch.onSign()
    last = now
    watch.onPoll?.({ what, times: attempt, last })
    await clock.sleep(backoffMs(attempt, pollBackoff, 0), watch.signal).catch(() => undefined)
  }
}

async function pollHealth(dispatcher: Dispatcher, path: string, signal: AbortSignal): Promise<Health | string> {
  try {
    return await readHealth(dispatcher, path, AbortSignal.any([signal, AbortSignal.timeout(answerMs)]))
  } catch (error) {
    return error instanceof Error ? `it gave no answer: ${error.message}` : 'it gave no answer'
  }
}

const notReady = ({ backend, model }: ReplicaSpec, last: string, cause: unknown): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `${backend} did not become ready for ${model}: ${last}` }, { cause })

const anotherOne = ({ backend, model }: ReplicaSpec, { address, other }: { address: BackendAddress; other: string }): FleetError =>
  new FleetError({
    code: 'conflict',
    retry: 'backoff',
    message: `the process at ${showAddress(address)} is not ${backend} with the model ${model}: it serves ${other}`,
  })

function createConnection(spec: ReplicaSpec, address: BackendAddress): BackendConnection {
  const { pool, verify, close } = createVerifiedPool(spec, address)
  const unreachable = (error: unknown): Error => unreachableProcess(spec, error)
  return {
    async handle(request, response, { path, headers }) {
      const verified = verify()
      if (verified !== null) {
        const closed = Promise.withResolvers<void>()
        response.once('close', closed.resolve)
        await Promise.race([verified, closed.promise])
        if (response.destroyed) return
      }
      await forward(pool, request, response, { path, headers, unreachable })
    },
    close,
  }
}

/**
 * Connections to one process whose identity is verified: another program may take its port once it is gone (F10, I14). The
 * process reports its identity before the first request, and again when no connection is left from the last time: as long as
 * one stays open, the process has not ended. A process that reports no identity is trusted by the worker's process table.
 */
function createVerifiedPool(spec: ReplicaSpec, address: BackendAddress) {
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
      const identity = identityIn(await readHealth(pool, healthPath(spec)), spec)
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

const connectMs = 5_000

/** Without response timeouts: a generation may take hours. */
function openPool(address: BackendAddress): Pool {
  const origin = address.kind === 'tcp' ? `http://${address.host}:${address.port}` : 'http://localhost'
  const connect = address.kind === 'tcp' ? { timeout: connectMs } : { timeout: connectMs, socketPath: address.path }
  return new Pool(origin, { connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0, connect })
}

const disposable = <P extends { destroy(): Promise<void> }>(pool: P): AsyncDisposable & { readonly pool: P } => ({
  pool,
  [Symbol.asyncDispose]: () => pool.destroy(),
})

/** `model` and `replica_id` are optional; a value that is present must match. */
const HealthBody = z.object({ model: z.string().optional(), replica_id: z.string().nullish() })

type Health = Readonly<{ status: number; text: string }>
type Identity = 'ours' | 'unnamed' | Readonly<{ other: string }>

const largestAnswer = 64 * 1024

/** Throws when there is no HTTP response. */
async function readHealth(dispatcher: Dispatcher, path: string, signal?: AbortSignal): Promise<Health> {
  const { statusCode, body } = await dispatcher.request({ path, method: 'GET', ...(signal === undefined ? {} : { signal }) })
  const bytes = await readAll(body, { maxBytes: largestAnswer, what: 'the health response' })
  return { status: statusCode, text: bytes.toString('utf8') }
}

/** F11: a process that answers for another model is not this replica, even if it is healthy. */
function identityIn({ text }: Health, { model, modelPath, replicaId }: ReplicaSpec): Identity {
  const body = HealthBody.safeParse(parseJson(text))
  if (!body.success) return 'unnamed'
  const { model: named, replica_id: replica } = body.data
  if (named !== undefined && named !== model && named !== modelPath) return { other: `the model ${quote(named)}` }
  if (typeof replica === 'string' && replica !== replicaId) return { other: `the replica ${quote(replica)}` }
  return named === undefined && typeof replica !== 'string' ? 'unnamed' : 'ours'
}

const quote = (text: string): string => JSON.stringify(text.slice(0, 200))
