// A hop that does nothing but forward: node:http and undici's dispatch. What a proxy in Node costs before it does anything of use.
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { Pool } from 'undici'

const { values } = parseArgs({ options: { to: { type: 'string' } } })
const pool = new Pool(values.to ?? '', { bodyTimeout: 0, headersTimeout: 0 })

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => {
    pool.dispatch(
      { method: 'POST', path: request.url ?? '/', headers: ['content-type', 'application/json'], body: Buffer.concat(chunks) },
      {
        onRequestStart(controller) {
          response.on('close', () => !response.writableFinished && controller.abort(new Error('gone')))
          response.on('drain', () => controller.resume())
        },
        onResponseStart(_controller, status, headers) {
          const passed = ['content-type', 'content-length'].flatMap((name) =>
            typeof headers[name] === 'string' ? [name, headers[name]] : [],
          )
          response.writeHead(status, passed)
        },
        onResponseData(controller, chunk) {
          if (!response.write(chunk)) controller.pause()
        },
        onResponseEnd: () => void response.end(),
        onResponseError: () => void response.destroy(),
      },
    )
  })
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => {
  const bound = server.address()
  console.log(`listens ${typeof bound === 'object' ? bound?.port : ''}`)
})
