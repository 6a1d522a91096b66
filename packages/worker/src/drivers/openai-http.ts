// Backends that speak the OpenAI API themselves. Their bytes pass through unread.
import type { Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { Dispatcher } from 'undici'
import type { BackendAddress, BackendConnection, Coming, Driver, ReplicaSpec } from './driver.ts'
import { forward } from './forward.ts'
import { askHealth, identityIn, type Health } from './health.ts'
import { addressKindOf, fillCommand, modelEnv, showAddress } from './launch-program.ts'
import { createSurePool, openPool, unreachableProcess } from './sure-pool.ts'

const [firstPauseMs, longestPauseMs] = [25, 500]
/** A process that computes while it loads answers late; it is asked again. */
const answerMs = 10_000

export function createOpenAiHttpDriver({ clock }: { clock: Clock }): Driver {
  return {
    name: 'openai-http',
    addressKind: (spec) => addressKindOf(commandOf(spec)),
    launch: (spec, address) => ({ argv: fillCommand(commandOf(spec), spec, address), env: modelEnv(spec) }),
    becomeReady: (spec, address, coming) => becomeReady(clock, { spec, address, coming }),
    recognises: async (spec, address, signal) => {
      await using asking = disposable(openPool(address))
      const health = await askHealth(asking.pool, healthPath(spec), signal).catch(() => null)
      return health?.status === 200 && typeof identityIn(health, spec) !== 'object'
    },
    connect: (spec, address) => createConnection(spec, address),
  }
}

const commandOf = ({ description }: ReplicaSpec): readonly string[] => description?.command ?? []
const healthPath = ({ description }: ReplicaSpec): string => description?.health_path ?? '/health'

async function becomeReady(clock: Clock, { spec, address, coming }: { spec: ReplicaSpec; address: BackendAddress; coming: Coming }) {
  await using asking = disposable(openPool(address))
  let last = 'it gave no answer'
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const said = await look(asking.pool, healthPath(spec), coming.signal)
    if (coming.signal.aborted) throw notReady(spec, last, coming.signal.reason)
    if (typeof said === 'object') {
      const identity = identityIn(said, spec)
      if (typeof identity === 'object') throw anotherOne(spec, { address, other: identity.other })
      if (said.status === 200) return
    }
    const now = typeof said === 'object' ? `it answered ${said.status} ${said.text.trim().slice(0, 500)}` : said
    // The same words again show no more than that it has not ended, and that is known without asking.
    if (typeof said === 'object' && now !== last) coming.onSign()
    last = now
    await clock.sleep(pauseMs, coming.signal).catch(() => undefined)
  }
}

async function look(dispatcher: Dispatcher, path: string, signal: AbortSignal): Promise<Health | string> {
  try {
    return await askHealth(dispatcher, path, AbortSignal.any([signal, AbortSignal.timeout(answerMs)]))
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
    message: `what answers at ${showAddress(address)} is not ${backend} with the model ${model}: it is there for ${other}`,
  })

function createConnection(spec: ReplicaSpec, address: BackendAddress): BackendConnection {
  const { pool, becomeSure, close } = createSurePool(spec, address)
  const unreachable = (error: unknown): Error => unreachableProcess(spec, error)
  return {
    async handle(request, response, { path, headers }) {
      const unsure = becomeSure()
      if (unsure !== null) {
        const left = Promise.withResolvers<void>()
        response.once('close', left.resolve)
        await Promise.race([unsure, left.promise])
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
