// The llama.cpp backend: OpenAI's API for one GGUF model. A worker starts it as `node server.mjs --addr 127.0.0.1:9000`
// (or `unix:/path`), with the model in the environment. It listens at once, and loads in the background.
import { parseArgs } from 'node:util'
import { ApiError } from './api-error.mjs'
import { loadEngine } from './engine.mjs'
import { numberOf, stopsOf } from './fields.mjs'
import { createHttp } from './http.mjs'
import { createMetrics } from './metrics.mjs'
import { readOptions } from './options.mjs'
import { samplingOf } from './sampling.mjs'

/** The limit for running generations after SIGTERM; a worker drains before it stops a backend. */
const graceMs = 1_000

const log = (text) => process.stderr.write(`${text}\n`)
function giveUp(message, code = 1) {
  log(message)
  process.exit(code)
}

const { values } = parseArgs({ options: { addr: { type: 'string' } } })
const address = listenOptions(values.addr)
if (address === null) giveUp('usage: server.mjs --addr HOST:PORT | unix:/path', 2)

const stopping = new AbortController()
const options = readOrGiveUp()
const server = {
  name: options.name,
  defaults: options.defaults,
  engine: null,
  loaded: 0,
  metrics: createMetrics(),
  log,
  stopping: stopping.signal,
}
const http = createHttp(server)
http.on('error', (error) => giveUp(`can't listen on ${values.addr}: ${error.message}`))
http.listen(address)
// Not `once`: a package of the engine ends the process when it finds no other listener.
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop)
await load()

function readOrGiveUp() {
  try {
    // oxlint-disable-next-line node/no-process-env -- a program of its own: its worker passes settings this way
    return readOptions(process.env, log)
  } catch (error) {
    return giveUp(error.message)
  }
}

async function load() {
  const from = performance.now()
  try {
    const engine = await loadEngine(options, { log, onProgress: (share) => (server.loaded = share) })
    // A wrong default fails at the start, not with every request.
    checkDefaults(options.defaults, engine)
    server.engine = engine
  } catch (error) {
    giveUp(`can't load ${options.modelPath}: ${error.message}`)
  }
  const { slots, contextSize } = server.engine
  const ms = Math.round(performance.now() - from)
  log(`${options.name} loaded in ${ms} ms: ${slots.total} at once, ${contextSize} tokens each, ${options.threads} threads`)
}

function checkDefaults(defaults, engine) {
  samplingOf(defaults, engine)
  stopsOf(defaults)
  numberOf(defaults, 'max_tokens', { min: 1, isInteger: true })
}

function stop() {
  const end = () => process.exit(0)
  http.close(end)
  http.closeIdleConnections()
  setTimeout(() => {
    stopping.abort(new ApiError(503, 'the backend is stopping', { code: 'stopping' }))
    setTimeout(end, 200)
  }, graceMs).unref()
}

/** `127.0.0.1:9000`, `[::1]:9000` or `unix:/path`; null when it is neither. */
function listenOptions(addr) {
  if (addr?.startsWith('unix:')) return { path: addr.slice('unix:'.length) }
  const [, host, port] = /^\[?([^\]]+)\]?:(\d+)$/.exec(addr ?? '') ?? []
  return host === undefined ? null : { host, port: Number(port) }
}
