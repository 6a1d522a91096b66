// The calls of the driver: loading a model, recognizing one, and serving requests.
import { errorMessage, type Clock } from '@muster/host'
import { backoffMs, FleetError } from '@muster/protocol'
import { mediaMarker } from '@muster/source'
import type { BackendAddress, BackendConnection, ReadinessWatch, ReplicaSpec } from '../driver.ts'
import { type BackendClient, createBackendClient, GrpcFailure } from './client.ts'
import { answer, type Exchange, loadFailed, refuse } from './exchange.ts'
import { modelIdentityOf } from './load-options.pure.ts'
import { serveEmbeddings, serveTokenize } from './serve-embeddings.ts'
import { serveChat, serveCompletion } from './serve-generation.ts'
import { compileModel, type Machine, planLoad } from './served-model.ts'

const pollBackoff = { baseMs: 50, maxMs: 500, jitter: 0 }
const answerMs = 10_000
/** While a model loads, health checks prove that the process lives, so that a large model does not count as silent. */
const [signEveryMs, longestLoadMs] = [5_000, 60 * 60_000]

type Readiness = Readonly<{ spec: ReplicaSpec; watch: ReadinessWatch }>

/** Resolves when the process has loaded the model. Throws FleetError. */
export async function loadModel({
  clock,
  address,
  ...readiness
}: Readiness & Readonly<{ clock: Clock; address: BackendAddress; machine: Machine }>): Promise<void> {
  // A template that cannot be used fails the load, not each request.
  compileModel(readiness.spec)
  using held = acquireClient(address)
  await waitUntilHealthy(clock, held.client, readiness)
  await load(clock, held.client, readiness)
}

export async function hasModel(spec: ReplicaSpec, address: BackendAddress, signal: AbortSignal): Promise<boolean> {
  using held = acquireClient(address)
  return await hasThisModel(held.client, spec, signal)
}

function acquireClient(address: BackendAddress): Disposable & { readonly client: BackendClient } {
  const client = createBackendClient(address)
  return { client, [Symbol.dispose]: () => client.close() }
}

async function waitUntilHealthy(clock: Clock, client: BackendClient, { spec, watch }: Readiness): Promise<void> {
  let last = 'it gave no answer'
  for (let attempt = 1; ; attempt++) {
    watch.onPoll?.({ what: 'Health over gRPC', times: attempt, last })
    const health = await client.health({}, { signal: watch.signal, timeoutMs: answerMs }).then(
      ({ message }) => message.toString('utf8').slice(0, 500),
      (error: unknown) => error,
    )
    if (health === 'OK') return
    if (watch.signal.aborted) throw notReady(spec, last)
    last = typeof health === 'string' ? `it answered ${JSON.stringify(health)}` : `it gave no answer: ${errorMessage(health)}`
    watch.onPoll?.({ what: 'Health over gRPC', times: attempt, last })
    await clock.sleep(backoffMs(attempt, pollBackoff, 0), watch.signal).catch(() => undefined)
  }
}

const notReady = ({ backend, model }: ReplicaSpec, last: string): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `${backend} did not become ready for ${model}: ${last}` })

async function load(clock: Clock, client: BackendClient, { spec, watch, machine }: Readiness & { machine: Machine }): Promise<void> {
  const { options, unused } = await planLoad(spec, machine)
  if (unused.length > 0) watch.onNote?.(`${spec.backend} has no field for parameters ${unused.join(', ')}: they have no effect`)
  const over = new AbortController()
  const signs = reportSigns(clock, client, { onSign: watch.onSign, signal: AbortSignal.any([over.signal, watch.signal]) })
  try {
    const { success, message } = await client.loadModel(options, { signal: watch.signal, timeoutMs: longestLoadMs })
    if (!success) throw loadFailed(spec, message === '' ? 'the backend gave no reason' : message)
    watch.onSign()
  } catch (error) {
    if (!(error instanceof GrpcFailure)) throw error
    // The words of the transport: only the exit of the process, if it ended, tells why.
    throw error.code === 'UNAVAILABLE' ? connectionLost(spec, error) : loadFailed(spec, error.message, error)
  } finally {
    over.abort()
    await signs
  }
}

const connectionLost = ({ backend, model }: ReplicaSpec, cause: GrpcFailure): FleetError =>
  new FleetError(
    { code: 'unavailable', retry: 'backoff', message: `the connection to ${backend} was lost while it loaded ${model}: ${cause.message}` },
    { cause },
  )

async function reportSigns(
  clock: Clock,
  client: BackendClient,
  { onSign, signal }: Pick<ReadinessWatch, 'onSign' | 'signal'>,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(signEveryMs, signal).catch(() => undefined)
    if (signal.aborted) return
    await client.health({}, { signal, timeoutMs: signEveryMs }).then(onSign, () => undefined)
  }
}

/** Uses calls that a backend with another model, or without one, refuses. Calls that it does not implement are skipped. */
async function hasThisModel(client: BackendClient, spec: ReplicaSpec, signal: AbortSignal): Promise<boolean> {
  const limits = { signal, timeoutMs: answerMs }
  try {
    if ((await client.health({}, limits)).message.toString('utf8') !== 'OK') return false
    const state = await unlessUnimplemented(client.status({}, limits).then((status) => status.state))
    if (state === 'UNINITIALIZED' || state === 'ERROR') return false
    await unlessUnimplemented(client.tokenize({ Prompt: 'a', ModelIdentity: modelIdentityOf(spec) }, limits))
    return true
  } catch {
    return false
  }
}

const unlessUnimplemented = <T>(call: Promise<T>): Promise<T | null> =>
  call.catch((error: unknown) => (error instanceof GrpcFailure && error.code === 'UNIMPLEMENTED' ? null : Promise.reject(error)))

type ConnectionDeps = Readonly<{ clock: Clock; machine: Machine }>

/** Throws FleetError `invalid`, as the load does. */
export function createConnection({ clock, machine }: ConnectionDeps, spec: ReplicaSpec, address: BackendAddress): BackendConnection {
  const model = compileModel(spec)
  const client = createBackendClient(address)
  let marker: string | null = null
  const findMarker = async (): Promise<string> => {
    marker ??= await readMediaMarker(client, { spec, machine })
    return marker ?? mediaMarker
  }
  const common = { spec, model, client, clock, mediaMarker: findMarker }
  return {
    handle: (request, response, { path, headers }) => serve({ ...common, request, response, headers }, path),
    close: async () => client.close(),
  }
}

/** A backend without the call, or without a marker, has the usual one. Null: the call failed, and is made again with the next request. */
async function readMediaMarker(client: BackendClient, { spec, machine }: { spec: ReplicaSpec; machine: Machine }): Promise<string | null> {
  const { options } = await planLoad(spec, machine)
  try {
    const named = await unlessUnimplemented(client.modelMetadata(options, { timeoutMs: answerMs }))
    return named === null || named.media_marker === '' ? mediaMarker : named.media_marker
  } catch {
    return null
  }
}

const posts: Readonly<Record<string, (exchange: Exchange) => Promise<void>>> = {
  '/v1/chat/completions': serveChat,
  '/v1/completions': serveCompletion,
  '/v1/embeddings': serveEmbeddings,
  '/tokenize': serveTokenize,
}

async function serve(exchange: Exchange, url: string): Promise<void> {
  const { request, spec } = exchange
  const [path = ''] = url.split('?', 1)
  const post = Object.hasOwn(posts, path) ? posts[path] : undefined
  if (post !== undefined && request.method === 'POST') return await post(exchange)
  request.resume()
  if (post !== undefined) return refuse(exchange, { status: 405, message: `${path} takes POST` })
  if (path === '/v1/models' && request.method === 'GET') {
    return answer(exchange, 200, { object: 'list', data: [{ id: spec.model, object: 'model', created: 0, owned_by: 'muster' }] })
  }
  refuse(exchange, { status: 404, message: `the backend ${spec.backend} serves nothing at ${path.slice(0, 200)}` })
}
