// The fastest backend there can be: it computes nothing. A whole answer of 0.5 kB, or a stream of as many events as the
// request asks for (`max_tokens`), as fast as they are taken; with `hold` the stream stays open after its first event.
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { addr: { type: 'string' } } })
const content = 'x'.repeat(280)
const whole = Buffer.from(
  JSON.stringify({
    id: 'c-1',
    object: 'chat.completion',
    created: 1,
    model: 'bench',
    choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 10, completion_tokens: 70, total_tokens: 80 },
  }),
)
const event = Buffer.from(
  `data: ${JSON.stringify({ id: 'c-1', object: 'chat.completion.chunk', created: 1, model: 'bench', choices: [{ index: 0, delta: { content: 'token' }, finish_reason: null }] })}\n\n`,
)

const server = createServer((request, response) => {
  const chunks = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    const text = Buffer.concat(chunks).toString()
    if (!text.includes('"stream":true')) {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': whole.length }).end(whole)
      return
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    let left = Number(/"max_tokens":(\d+)/.exec(text)?.[1] ?? 100)
    const isHeld = text.includes('"hold":true')
    // One write per turn of the loop: each event is a chunk of its own, as from an engine.
    const next = () => {
      if (response.destroyed) return
      if (left === 0) {
        response.end('data: [DONE]\n\n')
        return
      }
      left -= 1
      if (isHeld) {
        response.write(event)
        return
      }
      if (response.write(event)) setImmediate(next)
      else response.once('drain', next)
    }
    next()
  })
})
server.keepAliveTimeout = 600_000
const addr = values.addr ?? '127.0.0.1:0'
const [, host, port] = /^(.*):(\d+)$/.exec(addr) ?? []
server.listen(addr.startsWith('unix:') ? { path: addr.slice(5) } : { host, port: Number(port) }, () => {
  const bound = server.address()
  process.stdout.write(`listens ${typeof bound === 'string' ? bound : bound.port}\n`)
})
