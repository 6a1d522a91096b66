// The driver for backends that speak the OpenAI API. Requests and responses are forwarded unparsed.
import type { Clock } from '@muster/host'
import { backoffMs, FleetError } from '@muster/protocol'
import type { Dispatcher } from 'undici'
import {
  addressKindOf,
  fillCommand,
  modelEnv,
  showAddress,
  type BackendAddress,
  type BackendConnection,
  type Driver,
  type ReadinessWatch,
  type ReplicaSpec,
} from './driver.ts'
import { forward } from './forward.ts'
import { readHealth, createVerifiedPool, type Health, identityIn, openPool, unreachableProcess } from './verified-pool.ts'

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
  let last = 'it gave no answer'
  for (let attempt = 1; ; attempt++) {
    const health = await pollHealth(probe.pool, healthPath(spec), watch.signal)
    if (watch.signal.aborted) throw notReady(spec, last, watch.signal.reason)
    if (typeof health === 'object') {
      const identity = identityIn(health, spec)
      if (typeof identity === 'object') throw anotherOne(spec, { address, other: identity.other })
      if (health.status === 200) return
    }
    const now = typeof health === 'object' ? `it answered ${health.status} ${health.text.trim().slice(0, 500)}` : health
    // The same response again proves only that the process runs, which is known already.
    if (typeof health === 'object' && now !== last) watch.onSign()
    last = now
    await clock.sleep(backoffMs(attempt, pollBackoff, 0), watch.signal).catch(() => undefined)
  }
}

async function pollHealth(dispatcher: Dispatcher, path: string, signal: AbortSignal): Promise<Health | string> {
  try {
    return await readHealth(dispatcher, path, AbortSignal.any([signal, AbortSignal.timeout(answerMs)]))
  } catch (error) {
    return error instanceof Error ? `no answer: ${error.message}` : 'no answer'
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

const disposable = <P extends { destroy(): Promise<void> }>(pool: P): AsyncDisposable & { readonly pool: P } => ({
  pool,
  [Symbol.asyncDispose]: () => pool.destroy(),
})
