// Requests in, answers out: routes, bodies, errors, and clients that leave.
import { createServer } from 'node:http'
import { ApiError, errorBody, invalid } from './api-error.mjs'
import { chat } from './chat.mjs'
import { complete } from './completions.mjs'
import { embed } from './embeddings.mjs'
import { isObject } from './fields.mjs'

const largestBody = 16 * 1024 * 1024
const clientLeft = new Error('the client left')

const posts = { '/v1/chat/completions': chat, '/v1/completions': complete, '/v1/embeddings': embed }
const gets = { '/health': health, '/metrics': metricsText, '/v1/models': models }

/** `server`: `{ name, defaults, engine: null until it is loaded, loaded: 0 to 1, metrics, log, stopping }`. */
export function createHttp(server) {
  // Longer than clients keep connections: a request during a close would be lost.
  return createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    answer(server, { request, response }).catch((error) => fail(server, { response, error }))
  })
}

async function answer(server, { request, response }) {
  const pathname = pathOf(request.url)
  const one = pathname.startsWith('/v1/models/') ? model : undefined
  const get = one ?? (Object.hasOwn(gets, pathname) ? gets[pathname] : undefined)
  const post = Object.hasOwn(posts, pathname) ? posts[pathname] : undefined
  if (get === undefined && post === undefined) throw new ApiError(404, `there is no ${pathname} here`, { code: 'not_found' })
  const method = get === undefined ? 'POST' : 'GET'
  if (request.method !== method) {
    response.setHeader('allow', method)
    throw new ApiError(405, `${pathname} takes ${method}, not ${request.method}`, { code: 'method_not_allowed' })
  }
  if (get !== undefined) return get(server, { response, pathname })
  await serve(server, { request, response, handle: post })
}

/** Without the query, with its escapes read. */
function pathOf(url) {
  try {
    return decodeURIComponent(new URL(`http://llama${url}`).pathname)
  } catch {
    throw invalid('the path of the request cannot be decoded')
  }
}

async function serve(server, { request, response, handle }) {
  const leaving = new AbortController()
  response.on('close', () => !response.writableFinished && leaving.abort(clientLeft))
  const signal = AbortSignal.any([leaving.signal, server.stopping])
  const body = withDefaults(await readJson(request), server.defaults)
  if ((body.model ?? server.name) !== server.name)
    throw new ApiError(404, `the model ${JSON.stringify(body.model)} is not served here, but ${server.name} is`, {
      code: 'model_not_found',
      param: 'model',
    })
  if (server.engine === null) throw new ApiError(503, `the model ${server.name} is loading`, { code: 'model_loading' })
  server.metrics.begin()
  try {
    const result = await handle(server, { body, response, signal })
    if (result !== undefined) send(response, 200, result)
  } finally {
    // When one of several answers fails, the others stop.
    leaving.abort(clientLeft)
    server.metrics.end()
  }
}

/** The model's configuration is the default for fields that the request leaves out. */
function withDefaults(body, defaults) {
  const given = Object.entries(body).filter(([, value]) => value !== null)
  return { ...defaults, ...Object.fromEntries(given) }
}

function fail({ metrics, log }, { response, error }) {
  if (error === clientLeft || response.destroyed) {
    metrics.aborted()
    return
  }
  const status = error instanceof ApiError ? error.status : 500
  if (status === 500) {
    metrics.failed()
    log(`a request failed: ${error.stack ?? error}`)
  }
  if (response.headersSent) response.end(`data: ${JSON.stringify(errorBody(error))}\n\n`)
  // The rest of a too large body is not read.
  else send(response, status, errorBody(error), status === 413 ? { connection: 'close' } : {})
}

async function readJson(request) {
  const chunks = []
  let size = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    size += chunk.length
    if (size > largestBody) throw new ApiError(413, `the request is larger than ${largestBody} bytes`, { code: 'request_too_large' })
    chunks.push(chunk)
  }
  let body
  try {
    body = JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    throw invalid('the body must be JSON')
  }
  if (isObject(body)) return body
  throw invalid('the body must be a JSON object')
}

function health({ name, engine, loaded, metrics }, { response }) {
  if (engine === null) return send(response, 503, { status: 'loading', model: name, progress: Math.round(loaded * 1000) / 10 })
  const { slots } = engine
  return send(response, 200, {
    ...{ status: 'ok', model: name, context_size: engine.contextSize },
    ...{ in_flight: metrics.inFlight(), slots: slots.total, slots_busy: slots.busy(), waiting: slots.waiting() },
  })
}

function metricsText({ metrics, engine }, { response }) {
  response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(metrics.render(engine?.slots))
}

const about = ({ name }) => ({ id: name, object: 'model', created: 0, owned_by: 'muster' })
function models(server, { response }) {
  send(response, 200, { object: 'list', data: [about(server)] })
}

function model(server, { response, pathname }) {
  const asked = pathname.slice('/v1/models/'.length)
  if (asked !== server.name) throw new ApiError(404, `the model ${JSON.stringify(asked)} is not served here`, { code: 'model_not_found' })
  send(response, 200, about(server))
}

function send(response, status, body, headers = {}) {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers }).end(text)
}
