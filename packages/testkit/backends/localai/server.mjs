// A test double of a LocalAI backend: a real gRPC server without a model, that behaves (and misbehaves) as it is told, by
// the options that it is loaded with (`key:value`, values are JSON) and by a prompt that is `scripted {…}`. What it
// understands stands in testkit/src/localai-backend.ts. A copy of it elsewhere finds its library by the file `modules`.
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'

const beside = (name) => new URL(name, import.meta.url)
const library = createRequire(existsSync(beside('modules')) ? readFileSync(beside('modules'), 'utf8').trim() : import.meta.url)
const { Server, ServerCredentials, status } = library('@grpc/grpc-js')
const { loadSync } = library('@grpc/proto-loader')
const proto = existsSync(beside('backend.proto'))
  ? beside('backend.proto')
  : beside('../../../worker/src/drivers/localai-grpc/backend.proto')
const definition = loadSync(proto.pathname, { keepCase: true, longs: Number, enums: String, defaults: true })

const { values } = parseArgs({ options: { addr: { type: 'string' } }, strict: false })
const counts = { predicts: 0, cancelled: 0, running: 0, written: 0 }
let loaded = null
let options = {}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const never = () => new Promise(() => {})
const refusal = (code, details) => Object.assign(new Error(details), { code, details })

function optionsIn(list) {
  const entries = list.map((each) => [each.slice(0, each.indexOf(':')), each.slice(each.indexOf(':') + 1)])
  return Object.fromEntries(entries.map(([key, text]) => [key, valueIn(text)]))
}

function valueIn(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** As backends of today do: one that has another model says so. */
function checkModel({ ModelIdentity }) {
  if (loaded === null) throw refusal(status.FAILED_PRECONDITION, 'model not loaded')
  const actual = options.actual_model ?? loaded.Model
  if (ModelIdentity !== '' && ModelIdentity !== actual)
    throw refusal(status.NOT_FOUND, `model identity mismatch: loaded ${actual}, asked for ${ModelIdentity}`)
}

function howTo(request) {
  const text = request.Messages.at(-1)?.content || request.Prompt || request.Embeddings || ''
  return { text, ...options, ...scriptIn(text) }
}

/** The last script of a text: a rendered prompt has words around it. */
function scriptIn(text) {
  const from = text.lastIndexOf('scripted {')
  if (from === -1) return {}
  const start = from + 'scripted '.length
  for (let end = text.indexOf('}', start); end !== -1; end = text.indexOf('}', end + 1)) {
    const script = valueIn(text.slice(start, end + 1))
    if (typeof script === 'object') return script
  }
  throw refusal(status.INVALID_ARGUMENT, 'a script that is no JSON')
}

/** Tells what it got, so that a test sees what came over the wire. */
function tokensOf(request, how) {
  if (how.tell === 'request') return [JSON.stringify(request)]
  if (how.tell === 'load') return [JSON.stringify(loaded)]
  if (how.tell === 'counts') return [JSON.stringify(counts)]
  return Array.from({ length: how.tokens ?? 3 }, (_, at) => how.say ?? `token-${at} `)
}

const reply = (message, more = {}) => ({ message: Buffer.from(message), ...more })

function misbehave(how) {
  if (how.die) process.kill(process.pid, 'SIGKILL')
  if (how.refuse) throw refusal(status[how.refuse], how.message ?? `told to refuse with ${how.refuse}`)
}

async function predict(call) {
  checkModel(call.request)
  const how = howTo(call.request)
  if (how.hang) return never()
  if (how.delay_ms) await pause(how.delay_ms)
  misbehave(how)
  const tokens = tokensOf(call.request, how)
  const counted = { tokens: tokens.length, prompt_tokens: 4 }
  return how.deltas ? { ...reply('raw'), ...counted, chat_deltas: how.deltas } : reply(tokens.join(''), counted)
}

async function predictStream(call) {
  checkModel(call.request)
  const how = howTo(call.request)
  if (how.hang) return never()
  if (how.die_after === undefined && how.refuse_after === undefined) misbehave(how)
  const pieces = piecesOf(call.request, how)
  for (const [at, piece] of pieces.entries()) {
    if (how.die_after === at) {
      await pause(50)
      process.kill(process.pid, 'SIGKILL')
    }
    if (how.refuse_after === at) throw refusal(status.INTERNAL, 'told to fail in the middle')
    if (call.cancelled) return undefined
    counts.written += 1
    if (!call.write({ ...piece, tokens: at + 1, prompt_tokens: 4 })) await drained(call)
    if (how.delay_ms) await pause(how.delay_ms)
  }
  while (how.never_end && !call.cancelled) {
    counts.written += 1
    if (!call.write(reply(how.say ?? 'on '))) await drained(call)
    await pause(how.delay_ms ?? 5)
  }
  call.end()
  return undefined
}

/** Split inside characters when it is told to: one byte at a time. */
function piecesOf(request, how) {
  if (how.deltas) return how.deltas.map((delta) => ({ ...reply('raw'), chat_deltas: [delta] }))
  const tokens = tokensOf(request, how)
  return how.split ? [...Buffer.from(tokens.join(''))].map((byte) => reply([byte])) : tokens.map((token) => reply(token))
}

const drained = (call) =>
  new Promise((resolve) => {
    call.once('drain', resolve)
    call.once('cancelled', resolve)
  })

function embedding(call) {
  checkModel(call.request)
  const how = howTo(call.request)
  misbehave(how)
  const { EmbeddingTokens, Embeddings } = call.request
  const layout = how.per_token ? 'PER_TOKEN' : 'FINAL'
  const first = EmbeddingTokens.length > 0 ? EmbeddingTokens[0] : Embeddings.length
  return { embeddings: [first, 0.5, -1], dim: 3, prompt_tokens: 2, tokens: 2, layout }
}

async function loadModel(call) {
  const wanted = optionsIn(call.request.Options)
  if (wanted.load_ms) await pause(wanted.load_ms)
  if (wanted.die_load) {
    process.stderr.write(`${wanted.die_load}\n`)
    process.exit(3)
  }
  if (wanted.refuse_load) return { success: false, message: wanted.refuse_load }
  if (wanted.fail_load) throw refusal(status.UNKNOWN, wanted.fail_load)
  options = wanted
  loaded = call.request
  return { success: true, message: 'Model loaded successfully' }
}

/** Without the option it is a backend that does not have this call. */
function modelMetadata() {
  if (options.media_marker === undefined) throw refusal(status.UNIMPLEMENTED, 'no such call')
  return { media_marker: options.media_marker }
}

function tokenize(call) {
  checkModel(call.request)
  const tokens = [...call.request.Prompt].map((character) => character.codePointAt(0))
  return { length: tokens.length, tokens }
}

/** Counts what runs, and what was called off while it ran; the library says `cancelled` of what is over as well. */
function counting(call) {
  counts.predicts += 1
  counts.running += 1
  let isOver = false
  const over = () => {
    if (!isOver) counts.running -= 1
    isOver = true
  }
  call.once('cancelled', () => {
    if (!isOver) counts.cancelled += 1
    over()
  })
  return over
}

const unary = (serve) => (call, callback) => {
  const over = counting(call)
  Promise.resolve(call)
    .then(serve)
    .finally(over)
    .then(
      (answer) => callback(null, answer),
      (error) => callback(error),
    )
}

function stream(call) {
  const over = counting(call)
  predictStream(call)
    .catch((error) => call.emit('error', error))
    .finally(over)
}

const plain = (serve) => (call, callback) => {
  Promise.resolve(call)
    .then(serve)
    .then(
      (answer) => callback(null, answer),
      (error) => callback(error),
    )
}

const server = new Server({ 'grpc.max_receive_message_length': 50 * 1024 * 1024 })
const service = { ...definition['backend.Backend'] }
server.addService(service, {
  Health: plain(() => reply(options.unhealthy ? 'not yet' : 'OK')),
  Free: plain(() => ({ success: true })),
  LoadModel: plain(loadModel),
  ModelMetadata: plain(modelMetadata),
  Status: plain(() => ({ state: loaded === null ? 'UNINITIALIZED' : 'READY' })),
  Predict: unary(predict),
  PredictStream: stream,
  Embedding: unary(embedding),
  TokenizeString: plain(tokenize),
})
server.bindAsync(values.addr ?? '', ServerCredentials.createInsecure(), (error) => {
  if (error === null) return process.stdout.write(`a test double of a LocalAI backend, at ${values.addr}\n`)
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
})
process.once('SIGTERM', () => {
  server.forceShutdown()
  process.exit(0)
})
