// LocalAI's backends, which speak gRPC: existing images run as they are. The gateway speaks OpenAI for them.
import { availableParallelism } from 'node:os'
import type { Clock } from '@muster/host'
import { FleetError } from '@muster/protocol'
import type { BackendAddress, BackendConnection, Coming, Driver, ReplicaSpec } from '../driver.ts'
import { addressKindOf, fillCommand, modelEnv } from '../launch-program.ts'
import { createBackendClient, GrpcFailure, type BackendClient } from './client.ts'
import { answer, refuse, type Exchange } from './exchange.ts'
import { loadFailed } from './failures.ts'
import { fieldsOf } from './proto.ts'
import { serveEmbeddings, serveTokenize } from './serve-embeddings.ts'
import { serveChat, serveCompletion } from './serve-generation.ts'
import { modelIdentityOf, toLoadOptions } from './to-load-options.ts'

/** What an image without backend.json is started with. */
const runSh = ['./run.sh', '--addr', '{addr}']
const [firstPauseMs, longestPauseMs] = [50, 500]
const answerMs = 10_000
/** While it loads it is asked whether it lives, so that a large model is not taken for a dead process; but not for ever. */
const [signEveryMs, longestLoadMs] = [5_000, 60 * 60_000]

export type LocalAiDeps = Readonly<{ clock: Clock; threads?: () => number }>

export function createLocalAiGrpcDriver({ clock, threads = halfTheCores }: LocalAiDeps): Driver {
  return {
    name: 'localai-grpc',
    addressKind: (spec) => addressKindOf(commandOf(spec)),
    launch: (spec, address) => ({
      argv: fillCommand(commandOf(spec), spec, address),
      env: { ...modelEnv(spec), MUSTER_NODE: process.execPath },
    }),
    async becomeReady(spec, address, coming) {
      using held = holding(address)
      await untilHealthy(clock, held.client, { spec, coming })
      await load(clock, held.client, { spec, coming, threads: threads() })
    },
    async recognises(spec, address, signal) {
      using held = holding(address)
      return await hasThisModel(held.client, spec, signal)
    },
    connect: (spec, address) => createConnection(clock, spec, address),
  }
}

/** Of hyperthreads, every other is a core. More threads than free cores make it slower by far. */
const halfTheCores = (): number => Math.max(1, Math.floor(availableParallelism() / 2))

const commandOf = ({ description }: ReplicaSpec): readonly string[] => description?.command ?? runSh

function holding(address: BackendAddress): Disposable & { readonly client: BackendClient } {
  const client = createBackendClient(address)
  return { client, [Symbol.dispose]: () => client.close() }
}

type Becoming = Readonly<{ spec: ReplicaSpec; coming: Coming }>

async function untilHealthy(clock: Clock, client: BackendClient, { spec, coming }: Becoming): Promise<void> {
  let last = 'it gave no answer'
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
    const said = await client.health({}, { signal: coming.signal, timeoutMs: answerMs }).then(
      ({ message }) => message.toString('utf8').slice(0, 500),
      (error: unknown) => error,
    )
    if (said === 'OK') return
    if (coming.signal.aborted) throw notReady(spec, last)
    last = typeof said === 'string' ? `it says ${JSON.stringify(said)}` : said instanceof Error ? said.message : 'it gave no answer'
    await clock.sleep(pauseMs, coming.signal).catch(() => undefined)
  }
}

const notReady = ({ backend, model }: ReplicaSpec, last: string): FleetError =>
  new FleetError({ code: 'unavailable', retry: 'backoff', message: `${backend} did not become ready for ${model}: ${last}` })

async function load(clock: Clock, client: BackendClient, { spec, coming, threads }: Becoming & { threads: number }): Promise<void> {
  const options = toLoadOptions(spec, fieldsOf('ModelOptions'), threads)
  const over = new AbortController()
  const signs = tellSigns(clock, client, { onSign: coming.onSign, signal: AbortSignal.any([over.signal, coming.signal]) })
  try {
    const { success, message } = await client.loadModel(options, { signal: coming.signal, timeoutMs: longestLoadMs })
    if (!success) throw loadFailed(spec, message === '' ? 'it did not say why' : message)
    coming.onSign()
  } catch (error) {
    throw error instanceof GrpcFailure ? loadFailed(spec, error.message, error) : error
  } finally {
    over.abort()
    await signs
  }
}

async function tellSigns(clock: Clock, client: BackendClient, { onSign, signal }: Pick<Coming, 'onSign' | 'signal'>): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(signEveryMs, signal).catch(() => undefined)
    if (signal.aborted) return
    await client.health({}, { signal, timeoutMs: signEveryMs }).then(onSign, () => undefined)
  }
}

/** Asked in a way that a backend with another model, or with none, refuses. What it never learnt it can't be asked. */
async function hasThisModel(client: BackendClient, spec: ReplicaSpec, signal: AbortSignal): Promise<boolean> {
  const limits = { signal, timeoutMs: answerMs }
  try {
    if ((await client.health({}, limits)).message.toString('utf8') !== 'OK') return false
    const state = await unlessUnknown(client.status({}, limits).then((status) => status.state))
    if (state === 'UNINITIALIZED' || state === 'ERROR') return false
    await unlessUnknown(client.tokenize({ Prompt: 'a', ModelIdentity: modelIdentityOf(spec) }, limits))
    return true
  } catch {
    return false
  }
}

const unlessUnknown = <T>(asked: Promise<T>): Promise<T | null> =>
  asked.catch((error: unknown) => (error instanceof GrpcFailure && error.code === 'UNIMPLEMENTED' ? null : Promise.reject(error)))

function createConnection(clock: Clock, spec: ReplicaSpec, address: BackendAddress): BackendConnection {
  const client = createBackendClient(address)
  return {
    handle: (request, response, { path, headers }) => serve({ spec, client, clock, request, response, headers }, path),
    close: async () => client.close(),
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
  refuse(exchange, { status: 404, message: `the backend ${spec.backend} has nothing at ${path.slice(0, 200)}` })
}
