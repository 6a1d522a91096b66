// A test double of an engine, honest about being one: it has no model, and behaves (and misbehaves) as it is told.
// How it starts and lives is told by the model's options (MUSTER_MODEL_OPTIONS); how it answers, by the same, by the
// header `x-scripted`, or by the request's text when that is `scripted {…}`. All are JSON with the keys of
// testkit/src/scripted-backend.ts. Every answer says which build, replica, process and model it came from.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { addr: { type: 'string' } } })
const { MUSTER_MODEL_NAME, MUSTER_MODEL_OPTIONS, MUSTER_MODEL_PATH, MUSTER_CONTEXT_SIZE, MUSTER_REPLICA_ID } = process.env
const { version } = JSON.parse(readFileSync(new URL('backend.json', import.meta.url), 'utf8'))
// What a build does otherwise than others, in its backend.json; `only_below`: only on machines whose trees lie there.
const { only_below: onlyBelow = '', ...habits } = JSON.parse(process.env.SCRIPTED_BUILD || '{}')
const options = { ...(process.cwd().includes(onlyBelow) ? habits : {}), ...JSON.parse(MUSTER_MODEL_OPTIONS || '{}') }
const model = options.claims_model ?? (MUSTER_MODEL_NAME || 'scripted')
const counts = { requests: 0, aborted: 0, answered: 0, running: 0 }

const about = () => ({
  build: version,
  replica_id: MUSTER_REPLICA_ID ?? null,
  model,
  pid: process.pid,
  requests: counts.requests,
  aborted: counts.aborted,
})
const state = () => ({
  ...about(),
  answered: counts.answered,
  running: counts.running,
  model_path: MUSTER_MODEL_PATH ?? null,
  context_size: MUSTER_CONTEXT_SIZE ?? null,
  options,
  cwd: process.cwd(),
  env: Object.keys(process.env).toSorted(),
})
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const never = () => new Promise(() => {})

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    if (response.headersSent || response.destroyed) response.destroy()
    else fail(response, error.status ?? 500, error.message)
  })
})

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://scripted')
  switch (pathname) {
    case '/scripted/state':
      return send(response, 200, state())
    case '/health':
      if (options.hang_at_readiness) return never()
      if (options.unhealthy) return send(response, 503, { status: 'loading', ...about() })
      return send(response, 200, { status: 'ok', ...about() })
    case '/v1/models':
      return send(response, 200, { object: 'list', data: [{ id: model, object: 'model', created: 0, owned_by: 'scripted' }] })
    case '/v1/chat/completions':
    case '/v1/completions':
    case '/v1/embeddings':
      return await infer(request, response, pathname)
    default:
      return fail(response, 404, `the scripted backend has nothing at ${pathname}`)
  }
}

async function infer(request, response, pathname) {
  if (request.method !== 'POST') return fail(response, 405, `${pathname} takes POST`)
  counts.requests += 1
  counts.running += 1
  response.once('close', () => {
    counts.running -= 1
    if (response.writableFinished) counts.answered += 1
    else counts.aborted += 1
  })
  const body = await readJson(request)
  const how = { ...options, ...scriptIn(textOf(body)), ...JSON.parse(request.headers['x-scripted'] ?? '{}') }
  if (how.block_ms) block(how.block_ms)
  if (how.answer_after_ms) await pause(how.answer_after_ms)
  if (how.hang) return never()
  if (how.die) die()
  if (how.garbage) return void request.socket.end('\u0000\u0001 this is no HTTP \r\n\r\n')
  if (how.garbage_body) return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"choices": [{')
  if (how.status) return fail(response, how.status, how.message ?? `told to answer ${how.status}`)
  if (options.exit_after_requests && counts.requests >= options.exit_after_requests)
    response.once('finish', () => setTimeout(() => process.exit(how.exit_code ?? 0), 20))
  if (pathname === '/v1/embeddings') return send(response, 200, embeddings(body))
  const reply = replyTo(body, how, pathname === '/v1/chat/completions')
  if (body.stream === true) await stream(response, { reply, body, how })
  else await whole(response, { reply, how })
}

/** The text that is answered to: the last message, the prompt, the first input. */
function textOf(body) {
  const last = body.messages?.findLast?.((message) => message?.role === 'user') ?? body.messages?.at?.(-1)
  const text = last?.content ?? body.prompt ?? body.input ?? ''
  const first = Array.isArray(text) ? text[0] : text
  return typeof first === 'string' ? first : String(first?.text ?? '')
}

function scriptIn(text) {
  return text.startsWith('scripted ') ? JSON.parse(text.slice('scripted '.length)) : {}
}

const tokensIn = (text) => text.split(/\s+/).filter(Boolean).length

function replyTo(body, how, isChat) {
  const text = textOf(body)
  const tokens = how.echo ? [JSON.stringify(body)] : Array.from({ length: how.tokens ?? 5 }, (_, at) => how.say ?? `token-${at} `)
  const usage = { prompt_tokens: tokensIn(text), completion_tokens: tokens.length, total_tokens: tokensIn(text) + tokens.length }
  const id = `scripted-${process.pid}-${counts.requests}`
  const head = (object) => ({ id, object, created: Math.floor(Date.now() / 1000), model, scripted: about() })
  return { isChat, tokens, usage, head }
}

async function whole(response, { reply, how }) {
  for (const _ of reply.tokens) if (how.delay_ms && !response.destroyed) await pause(how.delay_ms)
  if (how.die_after !== undefined) die()
  const content = reply.tokens.join('')
  const said = reply.isChat ? { message: { role: 'assistant', content } } : { text: content }
  const object = reply.isChat ? 'chat.completion' : 'text_completion'
  send(response, 200, { ...reply.head(object), choices: [{ index: 0, ...said, finish_reason: 'stop' }], usage: reply.usage })
}

async function stream(response, { reply, body, how }) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  const object = reply.isChat ? 'chat.completion.chunk' : 'text_completion'
  const chunk = (choices, more = {}) => write(response, `data: ${JSON.stringify({ ...reply.head(object), choices, ...more })}\n\n`)
  const choice = (content, finish = null) => [
    { index: 0, ...(reply.isChat ? { delta: content === '' ? {} : { content } } : { text: content }), finish_reason: finish },
  ]
  if (reply.isChat) await chunk([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
  for (const [at, token] of reply.tokens.entries()) {
    // What was written so far leaves this process before it goes.
    if (how.die_after === at || how.cut_after === at) await pause(20)
    if (how.die_after === at) die()
    if (how.cut_after === at) return void response.destroy()
    if (how.end_after === at) return void response.end()
    if (how.hang_after === at) return never()
    await chunk(choice(token))
    if (how.delay_ms) await pause(how.delay_ms)
  }
  while (how.never_end) {
    await chunk(choice('on '))
    await pause(how.delay_ms ?? 10)
  }
  await chunk(choice('', 'stop'))
  if (body.stream_options?.include_usage === true) await chunk([], { usage: reply.usage })
  response.end('data: [DONE]\n\n')
}

/** A small vector that depends on nothing but the text. */
function embeddings(body) {
  const inputs = Array.isArray(body.input) ? body.input : [body.input ?? '']
  const data = inputs.map((input, index) => {
    const floats = Float32Array.from(createHash('sha256').update(String(input)).digest().subarray(0, 8), (byte) => byte / 256)
    const embedding = body.encoding_format === 'base64' ? Buffer.from(floats.buffer).toString('base64') : [...floats]
    return { object: 'embedding', index, embedding }
  })
  const count = inputs.reduce((sum, input) => sum + tokensIn(String(input)), 0)
  return { object: 'list', model, data, usage: { prompt_tokens: count, total_tokens: count }, scripted: about() }
}

/** As fast as the reader reads; a reader that went away ends it. */
function write(response, text) {
  if (response.destroyed) throw new Error('the reader went away')
  if (response.write(text)) return undefined
  return new Promise((resolve, reject) => {
    response.once('drain', resolve)
    response.once('close', () => reject(new Error('the reader went away')))
  })
}

/** As an engine with one thread that computes: it answers nobody meanwhile. */
function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

function die() {
  process.stderr.write('told to die\n')
  process.kill(process.pid, 'SIGKILL')
}

async function readJson(request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  try {
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  } catch {
    // Told below, with everything else that is not an object.
  }
  throw Object.assign(new Error('the body must be a JSON object'), { status: 400 })
}

function send(response, status, body) {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text)
}

function fail(response, status, message) {
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  send(response, status, { error: { message, type, param: null, code: null }, scripted: about() })
}

/** `127.0.0.1:9000`, `[::1]:9000` or `unix:/path`. */
function listenOptions(addr) {
  if (addr?.startsWith('unix:')) return { path: addr.slice('unix:'.length) }
  const [, host, port] = /^\[?([^\]]+)\]?:(\d+)$/.exec(addr ?? '') ?? []
  return host === undefined ? null : { host, port: Number(port) }
}

/** In a session of its own, so that no signal to this process group reaches it. */
function leaveGrandchild() {
  const script = 'setInterval(() => {}, 1000)'
  const middle = `require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(script)}], { detached: true, stdio: 'ignore' }).unref()`
  spawn(process.execPath, ['-e', middle], { detached: true, stdio: 'inherit' })
}

function flood() {
  const line = `${'flood '.repeat(10_000)}\n`
  const more = () => {
    for (let i = 0; i < 16; i += 1) process.stdout.write(line)
    setImmediate(more)
  }
  more()
}

async function start() {
  const listening = listenOptions(values.addr)
  if (listening === null) {
    process.stderr.write('usage: server.mjs --addr HOST:PORT | unix:/path\n')
    process.exit(2)
  }
  process.stdout.write(`scripted ${version} for ${model}, a test double\n`)
  if (options.ignore_sigterm) process.on('SIGTERM', () => process.stderr.write('ignoring SIGTERM\n'))
  else
    process.once('SIGTERM', () => {
      server.close(() => process.exit(0))
      server.closeAllConnections()
    })
  if (options.daemonise) leaveGrandchild()
  if (options.log_line_bytes) process.stdout.write('x'.repeat(options.log_line_bytes))
  if (options.start_delay_ms) await pause(options.start_delay_ms)
  if (options.crash_at_start) {
    process.stderr.write(`${options.crash_at_start}\n`)
    if (options.crash_signal) process.kill(process.pid, options.crash_signal)
    process.exit(options.exit_code ?? 1)
  }
  if (options.never_listen) return setInterval(() => {}, 1_000)
  server.listen(listening)
  if (options.log_flood) flood()
  if (options.exit_after_ms) setTimeout(() => process.exit(options.exit_code ?? 0), options.exit_after_ms)
}

await start()
