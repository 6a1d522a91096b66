// The smallest backend: serves OpenAI's API for one name and echoes its input. It needs no model.
// Runs on the worker's own Node with nothing installed: `node server.mjs --addr 127.0.0.1:9000` (or `unix:/path`).
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { addr: { type: 'string' } } })
// oxlint-disable-next-line node/no-process-env -- a program of its own: its worker passes settings this way
const model = process.env.MUSTER_MODEL_NAME || 'echo'
const largestBody = 16 * 1024 * 1024
let count = 0

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    if (!response.headersSent) fail(response, error.status ?? 500, error.message)
    else response.destroy()
  })
})

async function answer(request, response) {
  const { pathname } = new URL(request.url, 'http://echo')
  if (request.method === 'GET' && pathname === '/health') return send(response, 200, { status: 'ok' })
  if (request.method === 'GET' && pathname === '/v1/models') {
    return send(response, 200, { object: 'list', data: [{ id: model, object: 'model', created: 0, owned_by: 'echo' }] })
  }
  if (pathname !== '/v1/chat/completions') return fail(response, 404, `the echo backend has only /v1/chat/completions, not ${pathname}`)
  if (request.method !== 'POST') return fail(response, 405, `${pathname} takes POST`)
  const body = await readJson(request)
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    return fail(response, 400, 'messages must be a list with at least one message')
  const prompt = textOf(body.messages.findLast((message) => message?.role === 'user') ?? body.messages.at(-1))
  const chat = chatOf(prompt, body)
  if (body.stream === true) await stream(response, { chat, body })
  else send(response, 200, whole(chat))
}

/** Content is a text, or a list of parts of which only the texts are echoed. */
function textOf(message) {
  const content = message?.content ?? ''
  if (typeof content === 'string') return content
  return Array.isArray(content) ? content.map((part) => (typeof part?.text === 'string' ? part.text : '')).join('') : ''
}

/** Words stand for tokens: there is no tokenizer here. The end is `length` where max_tokens cut it. */
function chatOf(prompt, body) {
  const words = prompt.match(/\s*\S+/g) ?? []
  const limit = body.max_completion_tokens ?? body.max_tokens ?? Number.POSITIVE_INFINITY
  const reply = words.slice(0, limit)
  const usage = { prompt_tokens: words.length, completion_tokens: reply.length, total_tokens: words.length + reply.length }
  count += 1
  const id = `chatcmpl-echo-${process.pid}-${count}`
  return { id, created: Math.floor(Date.now() / 1000), reply, usage, finish: reply.length < words.length ? 'length' : 'stop' }
}

const head = ({ id, created }, object) => ({ id, object, created, model, system_fingerprint: 'echo' })

function whole(chat) {
  const message = { role: 'assistant', content: chat.reply.join('') }
  return { ...head(chat, 'chat.completion'), choices: [{ index: 0, message, finish_reason: chat.finish }], usage: chat.usage }
}

async function stream(response, { chat, body }) {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  const chunk = (choices, more = {}) =>
    write(response, `data: ${JSON.stringify({ ...head(chat, 'chat.completion.chunk'), choices, ...more })}\n\n`)
  const choice = (delta, finish = null) => [{ index: 0, delta, finish_reason: finish }]
  await chunk(choice({ role: 'assistant', content: '' }))
  for (const word of chat.reply) await chunk(choice({ content: word }))
  await chunk(choice({}, chat.finish))
  if (body.stream_options?.include_usage === true) await chunk([], { usage: chat.usage })
  response.end('data: [DONE]\n\n')
}

/** As fast as the reader reads; a disconnected reader ends it. */
function write(response, text) {
  if (response.destroyed) throw new Error('the reader disconnected')
  if (response.write(text)) return undefined
  return new Promise((resolve, reject) => {
    response.once('drain', resolve)
    response.once('close', () => reject(new Error('the reader disconnected')))
  })
}

async function readJson(request) {
  const chunks = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > largestBody) throw Object.assign(new Error('the request is too large'), { status: 413 })
    chunks.push(chunk)
  }
  try {
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'))
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body
  } catch {
    // Handled below, like every body that is not an object.
  }
  throw Object.assign(new Error('the body must be a JSON object'), { status: 400 })
}

function send(response, status, body) {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }).end(text)
}

function fail(response, status, message) {
  send(response, status, { error: { message, type: status < 500 ? 'invalid_request_error' : 'server_error', param: null, code: null } })
}

/** `127.0.0.1:9000`, `[::1]:9000` or `unix:/path`. */
function listenOptions(addr) {
  if (addr?.startsWith('unix:')) return { path: addr.slice('unix:'.length) }
  const [, host, port] = /^\[?([^\]]+)\]?:(\d+)$/.exec(addr ?? '') ?? []
  return host === undefined ? null : { host, port: Number(port) }
}

const listening = listenOptions(values.addr)
if (listening === null) {
  process.stderr.write('usage: server.mjs --addr HOST:PORT | unix:/path\n')
  process.exit(2)
}
server.listen(listening)
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    server.close(() => process.exit(0))
    server.closeIdleConnections()
  })
}
